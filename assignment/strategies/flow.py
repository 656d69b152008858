"""Sticky for unequal subscriptions: the most even loads there are, then the fewest moves.

Partitions of a topic are interchangeable, and so are topics with the same readers, here called a
pool. So this is a flow from pools to members, not over partitions: `levels` makes the loads even,
`exchange` proves that nothing better is left, and only then partitions are named.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from assignment.errors import InvalidInput
from assignment.strategies.deal import fill, stable_order, surplus
from assignment.strategies.dense import NOBODY, Owners
from assignment.strategies.exchange import Flow, Mask, Matrix, Vector, exchange
from assignment.strategies.levels import level


def owners(previous: Owners, starts: Vector, subscribed: Mask) -> Owners:
    """[P] as `sticky.owners_of`, of which this is the general case."""
    pool_of, readers = _pools(subscribed)
    kept = _kept(previous, starts, pool_of, readers)
    sizes = np.zeros(len(readers), dtype=np.int64)
    np.add.at(sizes, pool_of, np.diff(starts))
    sizes[~np.any(readers, axis=1)] = 0
    state = Flow.of(_filled(kept, readers, sizes), kept, readers)
    level(state)
    exchange(state)
    return _placed(previous, starts, pool_of, state)


def _pools(subscribed: Mask) -> tuple[Vector, Mask]:
    """[T] pool of each topic, and [C, N] the readers of each pool."""
    found: dict[bytes, int] = {}
    packed = np.packbits(subscribed, axis=1)
    pool_of = np.array([found.setdefault(row.tobytes(), len(found)) for row in packed])
    _, first = np.unique(pool_of, return_index=True)
    return pool_of, subscribed[first]


def _kept(previous: Owners, starts: Vector, pool_of: Vector, readers: Mask) -> Matrix:
    """[C, N] partitions held. InvalidInput names a member that does not read what it holds."""
    members = readers.shape[1]
    kept = np.zeros(readers.shape, dtype=np.int64)
    for pool, own in zip(pool_of.tolist(), _topics(previous, starts), strict=True):
        kept[pool] += np.bincount(own + 1, minlength=members + 1)[1:]
    wrong = np.argwhere((kept > 0) & ~readers)
    if len(wrong):
        raise InvalidInput(f"member {wrong[0][1]} holds partitions that it does not read")
    return kept


def _topics(owners: Owners, starts: Vector) -> Iterator[Owners]:
    """The part of each topic: views, not replicas."""
    bounds = starts.tolist()
    return (owners[start:end] for start, end in pairwise(bounds))


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


def _placed(previous: Owners, starts: Vector, pool_of: Vector, state: Flow) -> Owners:
    """Partitions for the flow: givers lose their highest, takers in turn get what is free."""
    result = previous.copy()
    excess = np.maximum(state.kept - state.flow, 0)
    if excess.any():
        first = (pool_of * excess.shape[1]).astype(np.int32)  # more cells would not fit in memory
        cell = np.repeat(first, np.diff(starts)) + previous
        cell[previous == NOBODY] = NOBODY
        result[surplus(cell, excess.ravel(), starts)] = NOBODY
    takers = [_in_turn(counts) for counts in np.maximum(state.flow - state.kept, 0)]
    for pool, own in zip(pool_of.tolist(), _topics(result, starts), strict=True):
        free = np.flatnonzero(own == NOBODY)
        own[free[: len(takers[pool])]] = takers[pool][: len(free)]
        takers[pool] = takers[pool][len(free) :]
    return result


def _in_turn(counts: Vector) -> Owners:
    """Each member as often as `counts` says: all in the first turn, then those with more."""
    member = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    turn = np.arange(len(member)) - np.repeat(np.cumsum(counts) - counts, counts)
    return member[stable_order(turn, int(counts.max(initial=0)))]
