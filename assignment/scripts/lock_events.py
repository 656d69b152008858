"""The history of the locks as Redis has it: entries of the stream `events`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assignment.scripts.values import Raw, pairs_of, text_of
from assignment.types import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEvent:
    """One entry of the stream `events`. `seq` has no gaps: a missing one was trimmed unread."""

    entry_id: str
    seq: int
    kind: str  # acquired, released, expired, fenced
    partition: Partition
    member_id: str
    fence: int
    at_ms: int


def read_event(entry_id: Raw, fields: Sequence[Raw] | Mapping[Raw, Raw]) -> LockEvent:
    values = {name: value.decode() for name, value in pairs_of(fields)}
    return LockEvent(
        entry_id=text_of(entry_id),
        seq=int(values["seq"]),
        kind=values["type"],
        partition=Partition.parse(values["partition"]),
        member_id=values["member"],
        fence=int(values["fence"]),
        at_ms=int(values["at_ms"]),
    )
