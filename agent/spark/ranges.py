"""What one batch reads of its partitions, as it stands in Spark's offset."""

from collections.abc import Mapping, Sequence
from typing import Any

from assignment.scripts.agent_side import BatchStart
from assignment.types import Offset, Partition, Range

NOTHING: Mapping[str, Any] = {"n": 0, "p": {}, "of": "", "halt": False, "tasks": 1}  # to read


def range_of(start: BatchStart, end: Offset) -> Range:
    return Range(start.partition, start.committed, end, start.fence, start.replication_id)


def plan_of(offset: Mapping[str, Any], stream: str) -> list[Range]:
    """The ranges of Spark's offset."""
    of = str(offset["of"])
    return [
        Range(Partition(stream, int(n)), Offset.parse(start), Offset.parse(end), int(fence), of)
        for n, (start, end, fence) in offset["p"].items()
    ]


def plan_from(number: int, ranges: Sequence[Range]) -> dict[str, Any]:
    """Spark's offset that reads those ranges, planned from one server, in one task."""
    read = {
        str(one.partition.number): [str(one.from_offset), str(one.to_offset), one.fence]
        for one in ranges
    }
    of = ranges[0].replication_id if ranges else ""
    return {**NOTHING, "n": number, "p": read, "of": of}


def batch_name(run: str, offset: Mapping[str, Any]) -> str:
    return f"{run}/{offset['n']}"
