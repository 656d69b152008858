"""Who owns what from this round on, before anything is handed over for balance (L2, L5, L6)."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from assignment.planner.handover import Exchange
from assignment.planner.indexed import NOBODY, Indexed, lag_order
from assignment.planner.loads import Loads
from assignment.planner.values import Learner, P


def settled(given: Indexed[P], loads: Loads) -> list[int]:
    """[partitions] -> owner, NOBODY where L6 leaves the choice to `deal`. Counts into `loads`.

    Partitions with one candidate first; then the others, ascending, each to its lightest candidate;
    then those that some cannot serve, which have the fewest places, to the lightest that can.
    """
    owner = [NOBODY] * len(given.partitions)
    contested: dict[int, Sequence[int]] = {}
    for partition in range(len(owner)):
        found = _candidates(given, partition)
        if len(found) == 1:
            owner[partition] = found[0]
            loads.add(found[0])
        elif found:
            contested[partition] = found
    for partition, found in contested.items():
        owner[partition] = loads.lightest(found)
        loads.add(owner[partition])
    for partition in given.unserved:
        if owner[partition] == NOBODY and (able := given.able(partition)):
            owner[partition] = loads.lightest(able)
            loads.add(owner[partition])
    return owner


def _candidates(given: Indexed[P], partition: int) -> Sequence[int]:
    """The equals of the first rank of L6 that is there. Least loaded is none of them: see `deal`.

    Two members that report one partition as owned are both candidates: either may be the owner,
    so giving it to a third would be a move too many.
    """
    claims = given.live_claims(partition)
    learners = given.learners.get(partition, {})
    if ready := [m for m, learner in learners.items() if learner.ready]:
        return ready
    if claims:
        return claims if len(claims) == 1 else _best_of(given, partition, claims)
    if learners:
        return _nearest({m: lag_order(one.lag_records) for m, one in learners.items()})
    return _nearest(given.standbys.get(partition, {}))


def _best_of(given: Indexed[P], partition: int, claims: list[int]) -> list[int]:
    """Of several: who was its ready learner just now, else those that stay, else all."""
    name = given.partitions[partition]
    stay = [m for m in claims if given.members[m].stays]
    learned = [m for m in stay if given.members[m].learning.get(name, Learner()).ready]
    return learned or stay or claims


def _nearest(lags: Mapping[int, float]) -> list[int]:
    least = min(lags.values(), default=0)
    return [m for m, lag in lags.items() if lag == least]


def deal(given: Indexed[P], owner: list[int], loads: Loads, exchange: Exchange[P]) -> None:
    """Partitions still without owner, ascending, each to the lightest member with room.

    What only some can serve and has to leave its owner finds its place before these do.
    """
    ahead = Counter(exchange.agreed.values())
    for partition in filter(exchange.must_go, given.unserved):
        if able := given.able(partition):
            taker = min(able, key=_first_choice(given, partition, loads, exchange, ahead))
            exchange.agree(partition, taker)
            ahead[taker] += 1
    open_to = [(loads.with_more(m), m) for m, room in enumerate(exchange.room) if room]
    heapq.heapify(open_to)
    for partition, member in enumerate(owner):
        if member == NOBODY and open_to and partition not in given.unserved:
            taker = open_to[0][1]
            owner[partition] = taker
            loads.add(taker)
            exchange.take_place(taker)
            if exchange.room[taker]:
                heapq.heapreplace(open_to, (loads.with_more(taker), taker))
            else:
                heapq.heappop(open_to)


def _first_choice(
    given: Indexed[P], partition: int, loads: Loads, exchange: Exchange[P], ahead: Mapping[int, int]
) -> Callable[[int], tuple[float, ...]]:
    """With room, with the least lag as a standby, the lightest with all that is `ahead` of it."""
    lags = given.standbys.get(partition, {})
    return lambda m: (
        not exchange.room[m],
        lags.get(m, math.inf),
        loads.with_more(m, 1 + ahead.get(m, 0)),
        m,
    )
