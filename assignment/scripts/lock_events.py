"""The history of the locks as Redis has it: entries of the stream `events`."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from assignment.bounds import moment_of, shown
from assignment.errors import InvalidInput
from assignment.plausible import COUNTED_MAX, Counted, check_reached
from assignment.scripts.values import FENCE_MAX, Raw, check_within, pairs_of, text_of
from assignment.types import INCARNATION_STEP, Partition, valid_name

KINDS = ("acquired", "released", "expired", "fenced")
_KIND_OF = {kind.encode(): kind for kind in KINDS}
MEMBERS_KEPT = 4_096  # names: a group has fewer, and each has many events


class LockEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
    check_within("seq", seq, 0, FENCE_MAX)
    check_within("fence", fence, 0, FENCE_MAX)
    return LockEvent(
        entry_id=text_of(entry_id),
        seq=seq,
        kind=kind,
        partition=Partition.parse(values[b"partition"].decode()),
        member_id=_member(values[b"member"]),
        fence=fence,
        at_ms=moment_of(values[b"at_ms"]),
    )


@lru_cache(MEMBERS_KEPT)
def _member(stored: bytes) -> str:
    return valid_name("member", stored.decode())


def _bytes_of(fields: Sequence[Raw] | Mapping[Raw, Raw]) -> Mapping[bytes, bytes]:
    """There are many: mostly they are so already."""
    if isinstance(fields, dict) and b"seq" in fields:
        return fields
    if not isinstance(fields, Mapping):
        fields = dict(zip(fields[::2], fields[1::2], strict=True))
    if b"seq" in fields:
        return fields
    return {name.encode(): value for name, value in pairs_of(fields)}


def check_event(event: LockEvent, counted: Counted) -> LockEvent:
    """Itself; InvalidInput when Redis has not come so far. `counted`: read after the event."""
    check_reached("at_ms", event.at_ms, counted.now_ms)
    check_within("seq", event.seq, 0, min(counted.event_seq, COUNTED_MAX))
    check_within("incarnation", event.fence // INCARNATION_STEP, 0, counted.incarnation)
    return event
