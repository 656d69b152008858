"""Which partitions go to whom, so that the members that stay end up even (L3, L7, L8, L10).

The number of moves is the least possible: only what is above a goal is given, and the goals let
those who have more than others keep more. Where the choice is free, learners that run already come
first, then standbys, then the lowest partitions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple

from assignment.planner.indexed import NOBODY, Indexed, lag_order
from assignment.planner.loads import Loads, even_shares
from assignment.planner.values import P


class Due(NamedTuple):
    """A partition that is to go to `taker`."""

    partition: int
    taker: int


# --- goals ----------------------------------------------------------------------------------------


def goals(given: Indexed[P], owner: Sequence[int], loads: Loads) -> list[int]:
    """[members] -> how many partitions it should have at the end; 0 for those that do not stay."""
    weights = [given.weights[m] for m in given.staying]
    shares = even_shares(given.served, weights)
    goal = [0] * len(given.members)
    for m, low in zip(given.staying, shares.low, strict=True):
        goal[m] = low
    tied = [m for m, tied in zip(given.staying, shares.tied, strict=True) if tied]
    for m in _ones_more(given, owner, loads, goal, tied)[: shares.extra]:
        goal[m] += 1
    return goal


def _ones_more(
    given: Indexed[P], owner: Sequence[int], loads: Loads, low: Sequence[int], tied: list[int]
) -> list[int]:
    """The tied members, those first that should have one more.

    Each that has more than `low` already saves a move; of these the smallest ids give first, unless
    others have learners for it. Of the rest, those where a learner or standby waits for the place.
    """
    counts = loads.counts
    over = {m: n - low[m] for m, n in enumerate(counts)}
    givers = {m for m, n in over.items() if n > 0}
    leaves, at, near = _hints(given, owner, givers)
    holders = sorted((m for m in tied if over[m] > 0), key=lambda m: (leaves[m] >= over[m], -m))
    others = sorted(
        (m for m in tied if over[m] <= 0),
        key=lambda m: (
            at[m] <= -over[m],
            at[m] + near[m] <= -over[m],
            low[m] / loads.weights[m],
            m,
        ),
    )
    return holders + others


def _hints(
    given: Indexed[P], owner: Sequence[int], givers: set[int]
) -> tuple[Counter[int], Counter[int], Counter[int]]:
    """Partitions of givers: by giver with a learner; by member where one learns; by standby."""
    leaves: Counter[int] = Counter()
    at: Counter[int] = Counter()
    near: Counter[int] = Counter()
    for partition, learners in given.learners.items():
        takers = [m for m in learners if m != owner[partition]]
        if owner[partition] in givers and takers:
            leaves[owner[partition]] += 1
            at.update(takers)
    for partition, standbys in given.standbys.items():
        if owner[partition] in givers:
            near.update(m for m in standbys if m != owner[partition])
    return leaves, at, near


# --- what is due ----------------------------------------------------------------------------------


def due(exchange: "Exchange[P]", loads: Loads) -> list[Due]:
    """All that has to move, in the order in which it should start."""
    given, begun = exchange.given, exchange.agreed.copy()
    _standbys(given, exchange)
    _lowest(exchange, loads)
    if given.unserved:
        _what_fits(given, exchange, loads)
    fresh = {p: taker for p, taker in exchange.agreed.items() if p not in begun}
    started = [Due(partition, taker) for partition, taker in begun.items()]
    return started + _in_turn(given, exchange.owner, loads, begun, fresh)


class Exchange(Generic[P]):
    """Who may still give and take how many, and what is agreed so far: partition -> taker.

    To begin with, what is learned already.
    """

    def __init__(
        self,
        given: Indexed[P],
        owner: Sequence[int],
        loads: Loads,
        goal: Sequence[int],
        tolerance: float,
    ) -> None:
        self.given, self.owner = given, owner
        self.spare = [
            max(0, n - max(want, int(want * (1 + tolerance))))
            for n, want in zip(loads.counts, goal, strict=True)
        ]
        self.room = [max(0, want - n) for n, want in zip(loads.counts, goal, strict=True)]
        self.agreed: dict[int, int] = {}
        _learners(given, self)

    def can_go(self, partition: int) -> bool:
        giver = self.owner[partition]
        return giver != NOBODY and self.spare[giver] > 0 and partition not in self.agreed

    def must_go(self, partition: int) -> bool:
        """Its owner leaves, and some cannot serve it: no goal may keep it from those that can."""
        restricted = partition in self.given.unserved and self.can_go(partition)
        return restricted and not self.given.members[self.owner[partition]].stays

    def agree(self, partition: int, taker: int) -> None:
        fits = self.room[taker] or self.must_go(partition)
        if fits and self.given.can_serve(taker, partition) and self.can_go(partition):
            self.agreed[partition] = taker
            self.spare[self.owner[partition]] -= 1
            self.take_place(taker)

    def take_place(self, taker: int) -> None:
        self.room[taker] = max(0, self.room[taker] - 1)


def _learners(given: Indexed[P], exchange: Exchange[P]) -> None:
    """Those that exist stay while still useful, the nearest to ready first."""
    offers = [
        (lag_order(learner.lag_records), partition, m)
        for partition, learners in given.learners.items()
        for m, learner in learners.items()
        if m != exchange.owner[partition]
    ]
    for _, partition, m in sorted(offers):
        exchange.agree(partition, m)


def _standbys(given: Indexed[P], exchange: Exchange[P]) -> None:
    """Partitions with the fewest takers first, each to its standby with the least lag."""
    offers = []
    for partition, lags in given.standbys.items():
        takers = sorted((lag, m) for m, lag in lags.items() if exchange.room[m])
        if takers and exchange.can_go(partition):
            offers.append((len(takers), partition, takers))
    for _, partition, takers in sorted(offers):
        for _, m in takers:
            exchange.agree(partition, m)


def _lowest(exchange: Exchange[P], loads: Loads) -> None:
    """Every giver's lowest partitions to whoever has room, in turn by member id.

    Room for more than is given (with a tolerance) is filled from the lightest on.
    """
    given = [p for p in range(len(exchange.owner)) if exchange.can_go(p)]
    spare = exchange.spare.copy()
    offered = []
    for partition in given:
        giver = exchange.owner[partition]
        if spare[giver]:
            spare[giver] -= 1
            offered.append(partition)
    places = _places(exchange.room, loads, len(offered))
    for partition, taker in zip(offered, places, strict=False):
        exchange.agree(partition, taker)


def _what_fits(given: Indexed[P], exchange: Exchange[P], loads: Loads) -> None:
    """Of what was offered to one that cannot serve it, the next ones: to the lightest that can."""
    for partition in filter(exchange.can_go, range(len(exchange.owner))):
        if able := [m for m in given.able(partition) if exchange.room[m]]:
            exchange.agree(partition, loads.lightest(able))


def _places(room: Sequence[int], loads: Loads, count: int) -> list[int]:
    """The `count` lightest places, then each member's first ones, its second ones ..."""
    places = [(turn, m) for m, free in enumerate(room) for turn in range(free)]
    lightest = sorted(places, key=lambda place: (loads.with_more(place[1], place[0] + 1), place[1]))
    return [m for _, m in sorted(lightest[:count])]


def _in_turn(
    given: Indexed[P],
    owner: Sequence[int],
    loads: Loads,
    begun: Mapping[int, int],
    fresh: Mapping[int, int],
) -> list[Due]:
    """Leaving members' partitions first, then to the lightest takers, learners at work counted."""
    ahead = Counter(begun.values())
    keys: dict[int, tuple[bool, float, int]] = {}
    for settled, partition in sorted((given.members[owner[p]].stays, p) for p in fresh):
        taker = fresh[partition]
        ahead[taker] += 1
        keys[partition] = (settled, loads.with_more(taker, ahead[taker]), partition)
    return [Due(p, fresh[p]) for p in sorted(keys, key=keys.__getitem__)]
