"""Quotas, and free partitions to the members that have the fewest."""

import numpy as np
import numpy.typing as npt

from assignment.strategies.dense import Owners

Counts = npt.NDArray[np.int64]


def quotas(loads: Counts, partitions: int) -> Counts:
    """floor(P/N), and one more for the P mod N members that hold most already (ties: smaller id).

    Any other choice of the larger quotas would have to move at least as many partitions.
    """
    smaller, larger_count = divmod(partitions, len(loads))
    result = np.full(len(loads), smaller, dtype=np.int64)
    result[np.argsort(-loads, kind="stable")[:larger_count]] += 1
    return result


def deal(loads: Counts, free: int) -> Owners:
    """[free] members in the order of dealing: each time the one with the fewest (ties: smaller id).

    Between two neighbouring loads the same members take part in every turn, so whole stretches of
    turns are written at once.
    """
    levels = np.unique(loads)
    stretches = []
    left = free
    for index, level in enumerate(levels):
        if left <= 0:
            break
        taking = np.flatnonzero(loads <= level).astype(np.int32)
        turns = -(-left // len(taking))
        if index + 1 < len(levels):
            turns = min(turns, int(levels[index + 1] - level))
        stretches.append(np.tile(taking, turns)[:left])
        left -= turns * len(taking)
    if len(stretches) == 1:
        return stretches[0]  # as it is: a replica of all partitions is not free
    return np.concatenate([np.empty(0, dtype=np.int32), *stretches])


def fill(loads: Counts, units: int) -> Counts:
    """[N] units for each, so that the lowest loads rise together; what is left over: first ones."""
    order = np.argsort(loads, kind="stable")
    ranked = loads[order]
    below = np.arange(1, len(loads) + 1) * ranked - np.cumsum(ranked)  # to lift all up to ranked[i]
    taking = int(np.searchsorted(below, units, side="right"))
    level, left = divmod(int(ranked[:taking].sum()) + units, taking)
    given = np.zeros(len(loads), dtype=np.int64)
    chosen = np.sort(order[:taking])
    given[chosen] = level - loads[chosen]
    given[chosen[:left]] += 1
    return given
