"""Who has too many gives up the highest ones: the partitions, once it is known how many.

By number before topic, so that what a member gives up is spread over its topics.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Indexes = npt.NDArray[np.int64]
Holders = npt.NDArray[np.integer]
_RADIX_BOUND = 2**16  # numpy sorts 16-bit keys by radix: linear, not n log n
_LOOKED_AT = 8  # partitions for each one to give up, in the first piece from the top
_PIECE_MAX = 2**18  # partitions: a piece and what is made of it stay in the processor's cache


def surplus(holder: Holders, excess: Indexes, starts: Indexes) -> Indexes:
    """Indexes of the partitions given up, as many as `excess` says for each holder.

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
