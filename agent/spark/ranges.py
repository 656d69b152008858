"""What one batch reads of its partitions, as it stands in Spark's offset."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from assignment.types import Offset, Partition

NOTHING: Mapping[str, Any] = {"n": 0, "p": {}, "halt": False, "tasks": 1}  # to read


class Range(NamedTuple):
    """What one batch does of one partition: the entries in (from, to], owned under the fence."""

    partition: Partition
    from_offset: Offset
    to_offset: Offset
    fence: int

    def name(self, batch: str) -> str:
        """Under which its counts are stored: no other batch ever has it."""
        return f"{batch} {self.partition} {self.fence} {self.from_offset} {self.to_offset}"


def plan_of(offset: Mapping[str, Any], stream: str) -> list[Range]:
    """The ranges of Spark's offset."""
    return [
        Range(Partition(stream, int(n)), Offset.parse(start), Offset.parse(end), int(fence))
        for n, (start, end, fence) in offset["p"].items()
    ]


def plan_from(number: int, ranges: Iterable[Range]) -> dict[str, Any]:
    """Spark's offset that reads those ranges, in one task."""
    read = {
        str(one.partition.number): [str(one.from_offset), str(one.to_offset), one.fence]
        for one in ranges
    }
    return {**NOTHING, "n": number, "p": read}


def batch_name(run: str, offset: Mapping[str, Any]) -> str:
    return f"{run}/{offset['n']}"
