"""The history of the locks as Redis has it: entries of the stream `events`."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from assignment.bounds import moment_of, shown
from assignment.errors import InvalidInput
from assignment.plausible import COUNTED_MAX, Counted, check_reached
from assignment.scripts.values import FENCE_MAX, Raw, check_within, text_of
from assignment.types import INCARNATION_STEP, Partition, valid_name

KINDS = ("acquired", "released", "expired", "fenced")
FIELDS = [b"seq", b"type", b"partition", b"member", b"fence", b"at_ms"]  # as _common.lua notes them
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
    seq, kind, partition, member, fence, at_ms = _values(fields)
    event = LockEvent(
        entry_id=text_of(entry_id),
        seq=int(seq),
        kind=_KIND_OF.get(kind, ""),
        partition=Partition.parse(partition.decode()),
        member_id=_member(member),
        fence=int(fence),
        at_ms=moment_of(at_ms),
    )
    if not event.kind:
        raise InvalidInput(f"there is no event {shown(kind.decode())}")
    check_within("seq", event.seq, 0, FENCE_MAX)
    check_within("fence", event.fence, 0, FENCE_MAX)
    return event


@lru_cache(MEMBERS_KEPT)
def _member(stored: bytes) -> str:
    return valid_name("member", stored.decode())


def _values(fields: Sequence[Raw] | Mapping[Raw, Raw]) -> Sequence[bytes]:
    """In the order of FIELDS. There are many, and mostly they come so."""
    if not isinstance(fields, Mapping):
        if fields[::2] == FIELDS:
            return fields[1::2]  # bytes, as their names are
        fields = dict(zip(fields[::2], fields[1::2], strict=True))
    given = {_bytes_of(name): _bytes_of(value) for name, value in fields.items()}
    return [given[name] for name in FIELDS]


def _bytes_of(value: Raw) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def check_event(event: LockEvent, counted: Counted) -> LockEvent:
    """Itself; InvalidInput when Redis has not come so far. `counted`: read after the event."""
    check_reached("at_ms", event.at_ms, counted.now_ms)
    check_within("seq", event.seq, 0, min(counted.event_seq, COUNTED_MAX))
    check_within("incarnation", event.fence // INCARNATION_STEP, 0, counted.incarnation)
    return event
