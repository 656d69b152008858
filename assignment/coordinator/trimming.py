"""What of a stream may go: the events that every group of it has committed."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from assignment.types import START, Offset


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
