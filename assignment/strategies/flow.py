"""Sticky for unequal subscriptions: the most even loads there are, then the fewest moves.

Partitions of a topic are interchangeable, so this is a flow from topics to members, not over
partitions. Cost: the sum of squared loads first (where least, no chain of moves makes the loads
more even), then partitions that leave their owner. Both together are an M-convex function of the
load vector, so a state that no single exchange between two members improves is the best of all
(Murota, Discrete Convex Analysis); an exchange may go along a chain of topics and members.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from assignment.errors import InvariantBroken
from assignment.strategies.dense import NOBODY, Dense, Owners

Matrix = npt.NDArray[np.int64]  # [topics, members]
Vector = npt.NDArray[np.int64]
_NEVER = 2**50  # above every real cost, far below overflow
_NONE = -1


@dataclass(frozen=True, slots=True)
class _Hop:
    """One partition of `topic` goes from `giver` to `taker`."""

    topic: int
    giver: int
    taker: int


def owners(dense: Dense) -> Owners:
    sizes = np.diff(dense.starts)
    kept = _counts(dense)
    flow = _fill(kept, dense.subscribed, np.where(dense.subscribed.any(axis=1), sizes, 0))
    _even_out(flow, kept, dense.subscribed)
    return _placed(dense, flow, kept)


def _counts(dense: Dense) -> Matrix:
    members = len(dense.member_ids)
    topic = np.repeat(np.arange(len(dense.topics)), np.diff(dense.starts))
    held = dense.previous >= 0
    cells = topic[held] * members + dense.previous[held]
    counted = np.bincount(cells, minlength=len(dense.topics) * members)
    return counted.reshape(len(dense.topics), members)


def _fill(kept: Matrix, subscribed: npt.NDArray[np.bool_], sizes: Vector) -> Matrix:
    """Unowned partitions go to the least loaded subscribers, topics with the fewest of those first.

    Whatever it chooses, no other flow with these loads moves less: nothing kept has moved yet.
    """
    flow = kept.copy()
    loads = flow.sum(axis=0)
    for topic in np.argsort(subscribed.sum(axis=1), kind="stable"):
        readers = np.flatnonzero(subscribed[topic])
        free = int(sizes[topic] - flow[topic].sum())
        if free > 0:
            given = _water_fill(loads[readers], free)
            flow[topic, readers] += given
            loads[readers] += given
    return flow


def _water_fill(loads: Vector, units: int) -> Vector:
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


def _even_out(flow: Matrix, kept: Matrix, subscribed: npt.NDArray[np.bool_]) -> None:
    """Exchanges until none improves, in place. Each lowers an integer cost: the loop must end."""
    square = flow.shape[1] + 1  # outweighs the moves along any chain of hops
    loads = flow.sum(axis=0)
    steps_max = int(square * (loads**2).sum() + flow.sum()) + 1
    for _ in range(steps_max):
        path = _best_exchange(flow, kept, subscribed, loads, square)
        if not path:
            return
        units = _units(path, flow, kept, loads)
        for hop in path:
            flow[hop.topic, hop.giver] -= units
            flow[hop.topic, hop.taker] += units
        loads[path[0].giver] -= units
        loads[path[-1].taker] += units
    raise InvariantBroken(f"loads {loads.tolist()} were not even after {steps_max} exchanges")


def _best_exchange(
    flow: Matrix,
    kept: Matrix,
    subscribed: npt.NDArray[np.bool_],
    loads: Vector,
    square: int,
) -> list[_Hop]:
    """The cheapest chain from any giver to any taker (Bellman-Ford from all givers at once).

    No cycle ever pays for itself, because only shortest chains were applied; so distances settle
    within N rounds. Empty when no chain lowers the cost.
    """
    take = np.where(subscribed, np.where(flow < kept, 0, 1), _NEVER)
    give = np.where(flow > 0, np.where(flow > kept, -1, 0), _NEVER)
    members = flow.shape[1]
    every = np.arange(members)
    distance = np.where(loads > 0, -square * (2 * loads - 1), _NEVER)
    by_topic = np.full(members, _NONE)
    by_giver = np.full(members, _NONE)
    for _ in range(members + 1):
        from_member = distance + give
        giver = from_member.argmin(axis=1)
        from_topic = from_member.min(axis=1)[:, None] + take
        topic = from_topic.argmin(axis=0)
        found = from_topic[topic, every]
        better = (found < distance) & (found < _NEVER // 2)
        if not better.any():
            return _chain(distance + square * (2 * loads + 1), by_topic, by_giver)
        distance = np.where(better, found, distance)
        by_topic = np.where(better, topic, by_topic)
        by_giver = np.where(better, giver[topic], by_giver)
    raise InvariantBroken("a cycle of exchanges pays for itself")


def _chain(cost: Vector, by_topic: Vector, by_giver: Vector) -> list[_Hop]:
    taker = int(cost.argmin())
    if cost[taker] >= 0:
        return []
    hops: list[_Hop] = []
    while by_giver[taker] != _NONE:
        hops.append(_Hop(int(by_topic[taker]), int(by_giver[taker]), taker))
        taker = int(by_giver[taker])
    return hops[::-1]


def _units(path: list[_Hop], flow: Matrix, kept: Matrix, loads: Vector) -> int:
    """How often this very chain pays: until a hop's price changes or the two ends are even."""
    gap = int(loads[path[0].giver] - loads[path[-1].taker])
    units = max(1, gap // 2)
    for hop in path:
        given, taken = flow[hop.topic, hop.giver], flow[hop.topic, hop.taker]
        keeps, kept_there = kept[hop.topic, hop.giver], kept[hop.topic, hop.taker]
        units = min(units, int(given - keeps if given > keeps else given))
        if taken < kept_there:
            units = min(units, int(kept_there - taken))
    return units


def _placed(dense: Dense, flow: Matrix, kept: Matrix) -> Owners:
    """Partitions for the flow: givers lose their highest, takers in turn get what is free."""
    result = dense.previous.copy()
    for topic, (start, end) in enumerate(zip(dense.starts[:-1], dense.starts[1:], strict=True)):
        own = result[start:end]  # a view
        for member in np.flatnonzero(flow[topic] < kept[topic]):
            own[np.flatnonzero(own == member)[flow[topic, member] :]] = NOBODY
        missing = np.maximum(flow[topic] - kept[topic], 0)
        takers = np.repeat(np.arange(len(missing)), missing)
        turn = np.arange(len(takers)) - np.repeat(np.cumsum(missing) - missing, missing)
        own[np.flatnonzero(own == NOBODY)[: len(takers)]] = takers[np.argsort(turn, kind="stable")]
    return result
