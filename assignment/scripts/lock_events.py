"""The history of the locks as Redis has it: entries of the stream `events`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assignment.bounds import moment_of, shown
from assignment.errors import InvalidInput
from assignment.plausible import COUNTED_MAX, Counted, check_reached
from assignment.scripts.values import FENCE_MAX, Raw, pairs_of, text_of, within
from assignment.types import INCARNATION_STEP, Partition, valid_name

KINDS = ("acquired", "released", "expired", "fenced")
_KIND_OF = {kind.encode(): kind for kind in KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEvent:
    """One entry of the stream `events`. `seq` has no gaps: a missing one was trimmed unread."""

    entry_id: str
    seq: int
    kind: str  # of KINDS
    partition: Partition
    member_id: str
    fence: int
    at_ms: int


def read_event(entry_id: Raw, fields: Sequence[Raw] | Mapping[Raw, Raw]) -> LockEvent:
    """Raises InvalidInput, or another of group_read.UNREADABLE, for what no script has written."""
    values = _bytes_of(fields)
    stored, seq, fence = values[b"type"], int(values[b"seq"]), int(values[b"fence"])
    kind = _KIND_OF.get(stored)
    if kind is None:
        raise InvalidInput(f"there is no event {shown(stored.decode())}")
    within("seq", seq, 0, FENCE_MAX)
    within("fence", fence, 0, FENCE_MAX)
    return LockEvent(
        entry_id=text_of(entry_id),
        seq=seq,
        kind=kind,
        partition=Partition.parse(values[b"partition"].decode()),
        member_id=valid_name("member", values[b"member"].decode()),
        fence=fence,
        at_ms=moment_of(values[b"at_ms"]),
    )


def _bytes_of(fields: Sequence[Raw] | Mapping[Raw, Raw]) -> Mapping[bytes, bytes]:
    """There are many: mostly they are so already."""
    if not isinstance(fields, Mapping):
        fields = dict(zip(fields[::2], fields[1::2], strict=True))
    if b"seq" in fields:
        return fields
    return {name.encode(): value for name, value in pairs_of(fields)}


def check_event(event: LockEvent, counted: Counted) -> LockEvent:
    """Itself; InvalidInput when Redis has not come so far. `counted`: read after the event."""
    check_reached("at_ms", event.at_ms, counted.now_ms)
    within("seq", event.seq, 0, min(counted.event_seq, COUNTED_MAX))
    within("incarnation", event.fence // INCARNATION_STEP, 0, counted.incarnation)
    return event
