"""What of a stream may go: events that all its groups have committed, and none wants kept."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from assignment.types import START, GroupSettings, Offset


class Kept(NamedTuple):
    """So long after it was appended, and up to so many bytes of a partition, an event is kept."""

    ms: int = 0
    partition_bytes: int = 0


def readers(known: Mapping[str, bool], in_redis: AbstractSet[str]) -> list[str]:
    """Groups whose offsets bound what may go; none: everything stays.

    `known`: the stream's groups in the database -> whether they let anything go. Redis may have
    forgotten one of them, and have one that the database does not.
    """
    return sorted(known.keys() | in_redis) if all(known.values()) else []


def lowest(committed: Iterable[Sequence[str]]) -> dict[int, Offset]:
    """Partition number -> the offset that every reader has reached; those without are left out."""
    reached = [min(map(Offset.parse, offsets)) for offsets in zip(*committed, strict=True)]
    return {number: offset for number, offset in enumerate(reached) if offset > START}


def kept(wishes: Iterable[GroupSettings]) -> Kept:
    """What any of a stream's groups wants kept is kept for all: it is one stream."""
    found = [
        (one.events_kept_seconds * 1_000, one.events_kept_bytes // one.partitions) for one in wishes
    ]
    return Kept(*map(max, zip(*found, strict=True))) if found else Kept()
