"""How long partitions had no owner, or several, in a span of time. Pure."""

from collections.abc import Iterable
from typing import Generic, NamedTuple

from assignment.errors import InvalidInput
from assignment.metrics import P


class Tenure(NamedTuple, Generic[P]):
    """One owner had the partition in [start_ms, end_ms); end_ms None: still has it."""

    partition: P
    start_ms: int
    end_ms: int | None


class Coverage(NamedTuple):
    """Sums over partitions, in partition-milliseconds."""

    unowned_ms: int
    overlap_ms: int  # time with more than one owner, counted once for each owner too many


def coverage(
    tenures: Iterable[Tenure[P]], partitions: Iterable[P], start_ms: int, end_ms: int
) -> Coverage:
    """Ownership gap and overlap of the partitions within [start_ms, end_ms)."""
    if end_ms < start_ms:
        raise InvalidInput(f"the window ends at {end_ms}, before its start {start_ms}")
    spans: dict[P, list[tuple[int, int]]] = {partition: [] for partition in partitions}
    for partition, begin, end in tenures:
        first, last = max(begin, start_ms), end_ms if end is None else min(end, end_ms)
        if partition in spans and first < last:
            spans[partition].append((first, last))
    unowned = overlap = 0
    for own in spans.values():
        union = _union(own)
        unowned += end_ms - start_ms - union
        overlap += sum(last - first for first, last in own) - union
    return Coverage(unowned, overlap)


def _union(spans: list[tuple[int, int]]) -> int:
    covered, reached = 0, None
    for first, last in sorted(spans):
        begin = first if reached is None else max(first, reached)
        covered += max(0, last - begin)
        reached = last if reached is None else max(last, reached)
    return covered
