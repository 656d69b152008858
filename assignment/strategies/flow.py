"""Sticky for unequal subscriptions: the most even loads there are, then the fewest moves.

Partitions of a topic are interchangeable, and so are topics with the same readers, here called a
pool. So this is a flow from pools to members, not over partitions: `levels` makes the loads even,
`exchange` proves that nothing better is left, and only then partitions are named.
"""

import numpy as np
import numpy.typing as npt

from assignment.errors import InvalidInput
from assignment.strategies.deal import fill
from assignment.strategies.dense import NOBODY, Owners
from assignment.strategies.exchange import Flow, Mask, Matrix, Vector, exchange
from assignment.strategies.levels import level
from assignment.strategies.trim import stable_order, surplus


def owners(previous: Owners, starts: Vector, subscribed: Mask) -> Owners:
    """[P] as `sticky.owners_of`, of which this is the general case."""
    pool_of_topic, readers = _pools(subscribed)
    pool_of = np.repeat(pool_of_topic, np.diff(starts))
    read: Mask = np.any(readers, axis=1)
    pool_of[~read[pool_of]] = NOBODY
    cell = np.where(previous == NOBODY, NOBODY, pool_of * readers.shape[1] + previous)
    kept = _counts(cell, readers)
    sizes = np.bincount(pool_of + 1, minlength=len(readers) + 1)[1:]
    state = Flow.of(_filled(kept, readers, sizes), kept, readers)
    level(state)
    exchange(state)
    result = previous.copy()
    result[surplus(cell, np.maximum(kept - state.flow, 0).ravel(), starts)] = NOBODY
    free = np.flatnonzero((result == NOBODY) & (pool_of != NOBODY))
    by_pool = free[stable_order(pool_of[free], len(readers))]
    result[by_pool] = _dealt(np.maximum(state.flow - kept, 0))
    return result


def _pools(subscribed: Mask) -> tuple[Vector, Mask]:
    """[T] pool of each topic, and [C, N] the readers of each pool."""
    found: dict[bytes, int] = {}
    packed = np.packbits(subscribed, axis=1)
    pool_of = np.array([found.setdefault(row.tobytes(), len(found)) for row in packed])
    _, first = np.unique(pool_of, return_index=True)
    return pool_of, subscribed[first]


def _counts(cell: npt.NDArray[np.int64], readers: Mask) -> Matrix:
    """[C, N] partitions held. InvalidInput names a member that does not read what it holds."""
    held = np.bincount(cell + 1, minlength=readers.size + 1)[1:].reshape(readers.shape)
    wrong = np.argwhere((held > 0) & ~readers)
    if len(wrong):
        raise InvalidInput(f"member {wrong[0][1]} holds partitions that it does not read")
    return held


def _filled(kept: Matrix, readers: Mask, sizes: Vector) -> Matrix:
    """Unowned partitions go to the least loaded readers, pools with the fewest of those first.

    Whatever it chooses, no other flow with these loads moves less: nothing kept has moved yet.
    """
    flow = kept.copy()
    loads = flow.sum(axis=0)
    for pool in np.argsort(readers.sum(axis=1), kind="stable"):
        free = int(sizes[pool] - flow[pool].sum())
        if free > 0:
            members = np.flatnonzero(readers[pool])
            given = fill(loads[members], free)
            flow[pool, members] += given
            loads[members] += given
    return flow


def _dealt(missing: Matrix) -> Owners:
    """Members for the free partitions, pool by pool; in a pool in turn."""
    return np.concatenate([_in_turn(counts) for counts in missing])


def _in_turn(counts: Vector) -> Owners:
    """Each member as often as `counts` says: all in the first turn, then those with more."""
    member = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    turn = np.arange(len(member)) - np.repeat(np.cumsum(counts) - counts, counts)
    return member[stable_order(turn, int(counts.max(initial=0)))]
