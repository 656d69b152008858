"""Who owns what from this round on, before anything is handed over for balance (L2, L5, L6)."""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence

from assignment.planner.indexed import NOBODY, Indexed, lag_order
from assignment.planner.loads import Loads
from assignment.planner.values import Learner, P


def settled(given: Indexed[P], loads: Loads) -> list[int]:
    """[partitions] -> owner, NOBODY where none of L6's candidates is left. Counts into `loads`.

    Partitions with one candidate first; then the others, ascending, each to its lightest candidate.
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


def deal(given: Indexed[P], owner: list[int], loads: Loads, goal: Sequence[int]) -> dict[int, int]:
    """Partitions still without owner, ascending, each to the lightest member below its goal.

    Those that some cannot serve go first, if need be above a goal: they have the fewest places. So
    do those of them whose owner leaves; they stay with it until then: partition -> taker.
    """
    agreed: dict[int, int] = {}
    for partition in given.unserved:
        holder = owner[partition]
        able = [m for m in given.staying if given.can_serve(m, partition)]
        if able and (holder == NOBODY or not given.members[holder].stays):
            taker = min(able, key=_first_choice(given, partition, loads, goal))
            loads.add(taker)
            if holder == NOBODY:
                owner[partition] = taker
            else:
                loads.counts[holder] -= 1
                agreed[partition] = taker
    open_to = [(loads.with_more(m), m) for m, want in enumerate(goal) if loads.counts[m] < want]
    heapq.heapify(open_to)
    for partition, member in enumerate(owner):
        if member == NOBODY and open_to and partition not in given.unserved:
            taker = open_to[0][1]
            owner[partition] = taker
            loads.add(taker)
            if loads.counts[taker] < goal[taker]:
                heapq.heapreplace(open_to, (loads.with_more(taker), taker))
            else:
                heapq.heappop(open_to)
    return agreed


def _first_choice(
    given: Indexed[P], partition: int, loads: Loads, goal: Sequence[int]
) -> Callable[[int], tuple[float, ...]]:
    """Who learns it already; else below its goal, with the least lag as a standby, the lightest."""
    learners, lags = given.learners.get(partition, {}), given.standbys.get(partition, {})
    return lambda m: (
        m not in learners,
        lag_order(learners[m].lag_records) if m in learners else 0,
        loads.counts[m] >= goal[m],
        lags.get(m, math.inf),
        loads.with_more(m),
        m,
    )
