"""Quotas, free partitions to who has the fewest, and the highest ones off who has too many."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Takers = npt.NDArray[np.int32]  # indexes of members


def quotas(loads: Counts, partitions: int) -> Counts:
    """floor(P/N), and one more for the P mod N members that hold most already (ties: smaller id).

    Any other choice of the larger quotas would have to move at least as many partitions.
    """
    smaller, larger_count = divmod(partitions, len(loads))
    result = np.full(len(loads), smaller, dtype=np.int64)
    result[np.argsort(-loads, kind="stable")[:larger_count]] += 1
    return result


def deal(loads: Counts, free: int) -> Takers:
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


Indexes = npt.NDArray[np.int64]
Holders = npt.NDArray[np.integer]
_RADIX_BOUND = 2**16  # numpy sorts 16-bit keys by radix: linear, not n log n
_LOOKED_AT = 8  # partitions for each one to give up, in the first piece from the top
_PIECE_MAX = 2**18  # partitions: a piece and what is made of it stay in the processor's cache


def surplus(holder: Holders, excess: Indexes, starts: Indexes) -> Indexes:
    """Indexes of the partitions given up, as many as `excess` says for each holder: the highest, by
    number before topic, so that what a member gives up is spread over its topics.

    holder [P]: index into excess, -1 for nobody; excess [holders] >= 0: at most what each has;
    starts [T + 1] as in `dense`. Looks from the top down, as far as it must.
    """
    wanted = np.append(excess, 0)  # the last one answers for nobody
    missing = int(excess.sum())
    found = [np.empty(0, dtype=np.int64)]
    pieces = _from_the_top(starts, _LOOKED_AT * missing)
    while missing:
        index = next(pieces)
        candidates = index[(wanted > 0)[holder[index]]]
        chosen = _highest(candidates, holder, wanted, starts)
        wanted -= np.bincount(holder[chosen], minlength=len(wanted))
        missing -= len(chosen)
        found.append(chosen)
    return np.concatenate(found)


def _from_the_top(starts: Indexes, enough: int) -> Iterator[Indexes]:
    """All partitions in pieces, ascending within each: those with the highest numbers first.

    The first piece has about `enough` of them, each further one some times more.
    """
    sizes = np.diff(starts)
    high = int(sizes.max(initial=0))
    height_max = 1 + _PIECE_MAX // max(1, len(sizes))
    height = min(1 + enough // max(1, len(sizes)), height_max)
    while high > 0:
        low = max(0, high - height)
        counts = np.clip(sizes - low, 0, high - low)
        before = np.cumsum(counts) - counts
        index = np.arange(counts.sum())
        index += np.repeat(starts[:-1] + low - before, counts) if len(sizes) > 1 else low
        yield index
        high, height = low, min(4 * height, height_max)


def _highest(candidates: Indexes, holder: Holders, wanted: Indexes, starts: Indexes) -> Indexes:
    """The last wanted[h] candidates of each holder h, by number, then topic."""
    if len(starts) > 2:
        number = candidates - starts[np.searchsorted(starts, candidates, side="right") - 1]
        candidates = candidates[stable_order(number, int(number.max(initial=-1)) + 1)]
    whose = holder[candidates]
    counts = np.bincount(whose, minlength=len(wanted))
    kept = np.maximum(counts - wanted, 0)
    rank = np.arange(len(whose)) - np.repeat(np.cumsum(counts) - counts + kept, counts)
    highest: Indexes = candidates[stable_order(whose, len(wanted))[rank >= 0]]
    return highest


def stable_order(keys: Holders, bound: int) -> Indexes:
    """As np.argsort(keys, kind="stable"), for keys from 0 to below `bound`."""
    return np.argsort(keys.astype(np.uint16) if bound <= _RADIX_BOUND else keys, kind="stable")
