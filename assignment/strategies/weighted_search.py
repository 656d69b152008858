"""Improves loads from where they stand: what overflows and what is free is dealt by weight, then
the most loaded member gives or swaps as long as that lowers the highest load over capacity.

Ends where no single give or swap helps all that are most loaded; from there it changes nothing.
"""

import heapq
from dataclasses import dataclass

import numpy as np

from assignment.strategies.dense import NOBODY, Owners
from assignment.strategies.loads import Loads, Ratios
from assignment.strategies.problem import Positions

STEPS_MAX = 20_000  # of one round, a few seconds; what is left is for the next rebalance
_LESS = 1 - 1e-9  # ratios closer than this are the same
_SWAP_GAIN = 1e-3  # two moves for less than this share of the highest load are not worth it


# Partitions that go, at one time, each to another member: one, or two that swap.
_Step = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _State:
    loads: Loads
    owners: Owners
    sums: Positions

    @property
    def ratios(self) -> Ratios:
        ratios: Ratios = self.sums / self.loads.capacity
        return ratios

    def apply(self, step: _Step) -> None:
        for partition, taker in step:
            self.sums[self.owners[partition]] -= self.loads.units[partition]
            self.sums[taker] += self.loads.units[partition]
            self.owners[partition] = taker


def improved(loads: Loads, moves_max: int | None) -> Owners:
    """Owners after one round. `moves_max`: of partitions that have an owner; None: no cap."""
    budget = len(loads.units) * 2 + STEPS_MAX if moves_max is None else moves_max
    state = _State(loads, loads.previous.copy(), loads.sums(loads.previous))
    overflow = _overflow(state)[:budget]
    np.subtract.at(state.sums, state.owners[overflow], loads.units[overflow])
    state.owners[overflow] = NOBODY
    _deal(state, np.flatnonzero((state.owners == NOBODY) & loads.is_read))
    budget -= int((state.owners[overflow] != loads.previous[overflow]).sum())
    for _ in range(STEPS_MAX):
        steps = _lower_the_highest(state)
        for step in steps:
            if len(step) > budget:
                return state.owners
            state.apply(step)
            budget -= len(step)
        if not steps:
            break
    return state.owners


# --- dealing --------------------------------------------------------------------------------------


def _overflow(state: _State) -> Positions:
    """The heaviest partitions of members that are far above the mean, heaviest first.

    Far: so that wherever these are dealt, nobody comes so high. Members with unequal subscriptions
    give one by one only, for their mean says nothing.
    """
    loads = state.loads
    if not loads.readers.all() or not len(loads.units):
        return np.empty(0, dtype=np.int64)
    far = loads.units.sum() / loads.capacity.sum() + loads.units.max() / loads.capacity.min()
    given = []
    for member in np.flatnonzero(state.ratios > far).tolist():
        own = np.flatnonzero(state.owners == member)
        own = own[np.argsort(-loads.units[own], kind="stable")]
        left = state.sums[member] - np.cumsum(loads.units[own])
        enough = int(np.argmax(left <= far * loads.capacity[member])) + 1
        given.append(own[:enough])
    every = np.concatenate([np.empty(0, dtype=np.int64), *given])
    return every[np.argsort(-loads.units[every], kind="stable")]


def _deal(state: _State, free: Positions) -> None:
    """Each to the member that has the least load over capacity with it, the heaviest first."""
    loads = state.loads
    is_light = loads.units[free] == 0
    heavy = free[~is_light]
    unable = np.where(loads.readers, 0.0, np.inf)  # [T, N]
    after = np.empty(len(loads.capacity))
    sums = state.sums.astype(np.float64)
    for partition in heavy[np.argsort(-loads.units[heavy], kind="stable")].tolist():
        units = loads.units[partition]
        np.add(sums, units, out=after)
        np.divide(after, loads.capacity, out=after)
        after += unable[loads.topic_of[partition]]
        member = int(after.argmin())
        state.owners[partition] = member
        sums[member] += units
    state.sums = sums.astype(np.int64)
    _deal_light(state, free[is_light])


def _deal_light(state: _State, free: Positions) -> None:
    """What weighs nothing goes to those with the fewest partitions."""
    loads = state.loads
    owned = state.owners[state.owners != NOBODY]
    counts = np.bincount(owned, minlength=len(loads.capacity))
    for topic in np.unique(loads.topic_of[free]).tolist():
        readers = np.flatnonzero(loads.readers[topic]).tolist()
        heap = [(int(counts[m]), m) for m in readers]
        heapq.heapify(heap)
        for partition in free[loads.topic_of[free] == topic].tolist():
            count, member = heap[0]
            heapq.heapreplace(heap, (count + 1, member))
            state.owners[partition] = member
            counts[member] += 1


# --- giving and swapping --------------------------------------------------------------------------


def _lower_the_highest(state: _State) -> list[_Step]:
    """Steps after which every member is below the highest load over capacity of now; none if there
    are no such. The state stays as it is.
    """
    highest = float(state.ratios.max())
    state = _State(state.loads, state.owners.copy(), state.sums.copy())
    steps: list[_Step] = []
    for _ in range(len(state.sums) + 1):
        ratios = state.ratios
        member = int(ratios.argmax())
        if ratios[member] < highest * _LESS:
            break
        step = _give(state, member, highest) or _swap(state, member, highest)
        if step is None:
            return []
        state.apply(step)
        steps.append(step)
    return steps


def _give(state: _State, member: int, highest: float) -> _Step | None:
    """One partition of the member to another that stays below, the two as even as can be.

    First the least loaded is asked, then everybody.
    """
    loads = state.loads
    own = np.flatnonzero((state.owners == member) & (loads.units > 0))
    if not len(own):
        return None
    least = np.array([int(state.ratios.argmin())])
    for takers in (least, np.arange(len(state.sums))):
        units = loads.units[own][:, None]
        cost = np.maximum(
            (state.sums[member] - units) / loads.capacity[member],
            (state.sums[takers] + units) / loads.capacity[takers],
        )
        cost[~loads.readers[loads.topic_of[own]][:, takers]] = np.inf
        cost[:, takers == member] = np.inf
        at = int(cost.argmin())
        if cost.flat[at] < highest * _LESS:
            row, column = divmod(at, len(takers))
            return ((int(own[row]), int(takers[column])),)
    return None


def _swap(state: _State, member: int, highest: float) -> _Step | None:
    """A partition of the member for a lighter one of another, the two as even as can be."""
    loads = state.loads
    own = np.flatnonzero(state.owners == member)
    own = own[np.argsort(loads.units[own], kind="stable")]
    other = np.flatnonzero((state.owners != member) & (state.owners != NOBODY))
    other = other[loads.readers[loads.topic_of[other], member]]
    if not len(own) or not len(other):
        return None
    best, found = highest * (1 - _SWAP_GAIN), None
    for mine in _partners(state, member, own, other):
        cost = _swap_cost(state, member, mine, other)
        at = int(cost.argmin())
        if cost[at] < best:
            taker = int(state.owners[other[at]])
            best, found = float(cost[at]), ((int(mine[at]), taker), (int(other[at]), member))
    return found


def _partners(
    state: _State, member: int, own: Positions, other: Positions
) -> tuple[Positions, Positions, Positions]:
    """For each of `other` three of `own` (ascending by weight): the next heavier one, and the two
    whose exchange would make both members about equal.
    """
    loads = state.loads
    owner = state.owners[other]
    mine, theirs = loads.capacity[member], loads.capacity[owner]
    even = (state.sums[member] * theirs - state.sums[owner] * mine) / (mine + theirs)
    weights, last = loads.units[own], len(own) - 1
    heavier = np.searchsorted(weights, loads.units[other], side="right")
    wanted = np.searchsorted(weights, loads.units[other] + even)
    return (
        own[np.minimum(heavier, last)],
        own[np.minimum(wanted, last)],
        own[np.clip(wanted - 1, 0, last)],
    )


def _swap_cost(state: _State, member: int, mine: Positions, other: Positions) -> Ratios:
    """[others] the higher load over capacity of the two; infinite where they may not swap."""
    loads, owner = state.loads, state.owners[other]
    gain = loads.units[mine] - loads.units[other]
    cost = np.maximum(
        (state.sums[member] - gain) / loads.capacity[member],
        (state.sums[owner] + gain) / loads.capacity[owner],
    )
    forbidden = (gain <= 0) | ~loads.readers[loads.topic_of[mine], owner]
    return np.where(forbidden, np.inf, cost)
