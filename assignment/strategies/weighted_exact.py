"""The very best for a few partitions on a few members: every assignment, cut short."""

from dataclasses import dataclass, field
from math import inf

import numpy as np

from assignment.strategies.dense import NOBODY, Owners
from assignment.strategies.loads import Loads

ASSIGNMENTS_MAX = 20_000  # members ** partitions: a tenth of a second at worst
_EQUAL = 1 + 1e-9  # ratios closer than this are the same


def is_small(loads: Loads) -> bool:
    """Of the size alone: what is best must not depend on what is there before."""
    members, partitions = len(loads.capacity), len(loads.units)
    return partitions < 64 and members**partitions <= ASSIGNMENTS_MAX


def best(loads: Loads) -> Owners:
    """The least load over capacity of the most loaded member, then the fewest moves.

    Of equal ones the first when partitions are dealt by weight, each first to its owner, then to
    the least loaded member (fewest partitions, smaller id).
    """
    search = _Search(loads)
    search.go(0, 0.0, 0)
    return search.found


@dataclass(slots=True)
class _Search:
    """Depth first; a branch ends where it cannot become better than the best found."""

    loads: Loads
    order: list[int] = field(init=False)
    owners: Owners = field(init=False)
    sums: list[int] = field(init=False)
    counts: list[int] = field(init=False)
    found: Owners = field(init=False)
    ratio: float = inf
    moves: int = 0

    def __post_init__(self) -> None:
        mine = np.flatnonzero(self.loads.is_read)
        self.order = mine[np.argsort(-self.loads.units[mine], kind="stable")].tolist()
        self.owners = np.full(len(self.loads.units), NOBODY, dtype=np.int32)
        self.found = self.owners.copy()
        self.sums = [0] * len(self.loads.capacity)
        self.counts = [0] * len(self.loads.capacity)

    def go(self, depth: int, ratio: float, moves: int) -> None:
        if not self._is_better(ratio, moves):
            return
        if depth == len(self.order):
            self.found, self.ratio, self.moves = self.owners.copy(), ratio, moves
            return
        partition = self.order[depth]
        units, previous = int(self.loads.units[partition]), int(self.loads.previous[partition])
        for after, member in self._choices(partition, units, previous):
            self.owners[partition] = member
            self.sums[member] += units
            self.counts[member] += 1
            moved = previous not in (NOBODY, member)
            self.go(depth + 1, max(ratio, after), moves + moved)
            self.sums[member] -= units
            self.counts[member] -= 1

    def _is_better(self, ratio: float, moves: int) -> bool:
        if ratio * _EQUAL < self.ratio:
            return True
        return ratio <= self.ratio * _EQUAL and moves < self.moves

    def _choices(self, partition: int, units: int, previous: int) -> list[tuple[float, int]]:
        """(load over capacity with it, member), the one to try first in front."""
        may = np.flatnonzero(self.loads.readers[self.loads.topic_of[partition]]).tolist()
        after = {m: (self.sums[m] + units) / float(self.loads.capacity[m]) for m in may}
        may.sort(key=lambda m: (m != previous, after[m], self.counts[m], m))
        return [(after[m], m) for m in may]
