"""Which partitions the next batch has, when some are under suspicion, or have entries to be skipped
or letters to be replayed.

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
from assignment.scripts.replays import WaitingLetter
from assignment.troubles import Halted, HaltReason
from assignment.types import Offset, Partition, Range

LOOK_ENTRIES = 1_000  # of a suspect at once at most

Entries = Callable[[Partition, Offset, int], Sequence[Offset]]  # partition, after, how many


@dataclass(frozen=True, slots=True)
class Alone:
    """A batch of one partition: `entries` of it for suspicion, one that is skipped, or no entry but
    letters that are replayed.
    """

    one: Range
    entries: int = 0
    skip: Skip | None = None
    letters: tuple[WaitingLetter, ...] = ()


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


def run_end(start: BatchStart, entries: Entries) -> Offset:
    """Of the entries whose ids follow the committed offset without a gap: nothing can be replayed
    before they were read.
    """
    end = start.committed
    for one in entries(start.partition, start.committed, LOOK_ENTRIES):
        if one != end.next:
            break
        end = one
    return end


class Turns:
    """Suspects and replays in turn, each after a batch of the others."""

    def __init__(self) -> None:
        self._last: Partition | None = None
        self._others_first = False

    def alone(
        self,
        free: Sequence[BatchStart],
        entries: Entries,
        replays: Sequence[BatchStart] = (),
        *,
        others_have_some: bool,
    ) -> Alone | None:
        """The next batch of a suspect, or of one of `replays`, behind whose committed offset there
        is a gap; None when it is the others' turn, or there is none.
        """
        waiting = sorted((*filter(_is_suspect, free), *replays), key=lambda s: s.partition)
        if not waiting or (self._others_first and others_have_some):
            self._others_first = False
            return None
        later = [s for s in waiting if self._last is not None and s.partition > self._last]
        for start in later + waiting:
            found = _narrowed(start, entries) if _is_suspect(start) else _replayed(start)
            if found is not None:
                self._last, self._others_first = start.partition, True
                return found
        return None


def _narrowed(start: BatchStart, entries: Entries) -> Alone | None:
    assert start.suspect is not None
    most = min(start.suspect.width or LOOK_ENTRIES, LOOK_ENTRIES)
    found = entries(start.partition, start.committed, most)
    ids = [one for one in found if one <= start.suspect.to]
    return Alone(range_of(start, ids[-1]), entries=len(ids)) if ids else None


def _replayed(start: BatchStart) -> Alone:
    assert start.replays is not None
    return Alone(range_of(start, start.committed.next), letters=start.replays.letters)


def others(free: Sequence[BatchStart]) -> list[BatchStart]:
    """Those that nothing is suspected of."""
    return [s for s in free if s.suspect is None or not s.suspect.is_alone]


def _is_suspect(start: BatchStart) -> bool:
    return start.suspect is not None and start.suspect.is_alone and not start.suspect.halted
