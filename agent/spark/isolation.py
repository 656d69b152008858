"""Which partitions the next batch has, when some are under suspicion or are to be skipped.

A partition that was in hand at three crashes in a row is processed alone: all of what it had in
hand, then half as many entries after each crash, until one entry crashes alone and the partition is
halted (assignment/lua/crash.lua). Between two such batches the others have theirs. Pure but for the
entries it looks up; decided anew from what Redis says, so it outlives its process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.spark.ranges import range_of
from assignment.scripts.agent_side import BatchStart
from assignment.scripts.crashes import Skip
from assignment.troubles import Halted, HaltReason
from assignment.types import Offset, Partition, Range

LOOK_ENTRIES = 1_000  # of a suspect at once at most

Entries = Callable[[Partition, Offset, int], Sequence[Offset]]  # partition, after, how many


@dataclass(frozen=True, slots=True)
class Alone:
    """A batch of one partition: `entries` of it for suspicion, or one that is skipped."""

    one: Range
    entries: int = 0
    skip: Skip | None = None


def halted_of(free: Sequence[BatchStart]) -> list[Halted]:
    return [
        Halted(
            partition=start.partition,
            reason=HaltReason.CRASH,
            entry=str(start.suspect.to),
            why=start.suspect.why,
        )
        for start in free
        if start.suspect is not None and start.suspect.halted
    ]


def skipped(free: Sequence[BatchStart], entries: Entries) -> Alone | None:
    """Only the very next entry can be skipped: whatever is before it is processed first."""
    for start in free:
        if start.skip is None:
            continue
        if list(entries(start.partition, start.committed, 1)) == [start.skip.entry]:
            return Alone(range_of(start, start.skip.entry), skip=start.skip)
    return None


class Turns:
    """Suspects in turn, each after a batch of the others."""

    def __init__(self) -> None:
        self._last: Partition | None = None
        self._others_first = False

    def suspect(
        self, free: Sequence[BatchStart], entries: Entries, *, others_have_some: bool
    ) -> Alone | None:
        """The next suspect's batch; None when it is the others' turn, or nothing is suspect."""
        suspects = sorted((s for s in free if _is_suspect(s)), key=lambda s: s.partition)
        if not suspects or (self._others_first and others_have_some):
            self._others_first = False
            return None
        later = [s for s in suspects if self._last is not None and s.partition > self._last]
        for start in later + suspects:
            assert start.suspect is not None
            width = start.suspect.width or LOOK_ENTRIES
            ids = [
                one
                for one in entries(start.partition, start.committed, min(width, LOOK_ENTRIES))
                if one <= start.suspect.to
            ]
            if ids:
                self._last, self._others_first = start.partition, True
                return Alone(range_of(start, ids[-1]), entries=len(ids))
        return None


def others(free: Sequence[BatchStart]) -> list[BatchStart]:
    """Those that nothing is suspected of."""
    return [s for s in free if s.suspect is None or not s.suspect.is_alone]


def _is_suspect(start: BatchStart) -> bool:
    return start.suspect is not None and start.suspect.is_alone and not start.suspect.halted
