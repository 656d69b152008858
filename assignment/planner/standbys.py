"""Where the kept replicas are (L13): other zones than the owner's first, in each those that have a
replica already (the old owner before the others), then who has the fewest standbys, then the least
loaded. Nobody waits for them: they are evened out while nothing is learned.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from assignment.planner.evening import even_out
from assignment.planner.indexed import NOBODY, Indexed
from assignment.planner.values import P

_USED_ZONE = 1e9  # above every load: a zone without a replica of the partition comes first
_OTHER_ROLE = 1e-6  # of a standby: what else a member has decides between equals


@dataclass(frozen=True, slots=True, kw_only=True)
class Standbys:
    """partition -> members: those that are to be, then those that go as soon as these have caught
    up. And how many of those wanted are missing.
    """

    members: Mapping[int, tuple[int, ...]]
    missing: Mapping[int, int]


def placed(
    given: Indexed[P], owner: Sequence[int], learner: Mapping[int, int], wanted: int
) -> Standbys:
    """For every owned partition `wanted` members that stay and have no other role in it.

    Replicas that need not move are counted before any is placed anew.
    """
    if not wanted:
        return Standbys(members={}, missing={})
    room = _Room(given, owner, learner)
    chosen: dict[int, tuple[int, ...]] = {}
    for partition in range(len(owner)):
        if owner[partition] != NOBODY:
            chosen[partition] = tuple(room.known(partition, same_zone=False)[:wanted])
            room.count(chosen[partition])
    for partition, kept in chosen.items():
        if len(kept) < wanted:
            chosen[partition] = room.filled(partition, kept, wanted)
    missing = {p: wanted - len(found) for p, found in chosen.items() if len(found) < wanted}
    if not learner:
        chosen = even_out(given, owner, chosen, room.replicas)
    return Standbys(
        members={p: room.with_those_that_go(p, chosen[p]) for p in chosen}, missing=missing
    )


class _Room(Generic[P]):
    """The members that stay, and what the load of each would be with one standby more, over
    capacity.

    inside, outside and used: zone -> a cost for every member, to be added.
    """

    def __init__(self, given: Indexed[P], owner: Sequence[int], learner: Mapping[int, int]) -> None:
        self.given, self.owner, self.learner = given, owner, learner
        names = [member.zone for member in given.members]
        within = {zone: np.array([name == zone for name in names]) for zone in set(names)}
        self.inside = {zone: np.where(here, 0.0, np.inf) for zone, here in within.items()}
        self.outside = {zone: np.where(here, np.inf, 0.0) for zone, here in within.items()}
        self.used = {zone: np.where(here, _USED_ZONE, 0.0) for zone, here in within.items()}
        self.one_more = np.array([1 / weight for weight in given.weights])
        self.load = np.full(len(given.members), np.inf)
        self.load[list(given.staying)] = self.one_more[list(given.staying)]
        self.count((m for m in owner if m != NOBODY), _OTHER_ROLE)
        self.count(learner.values(), _OTHER_ROLE)

    def count(self, members: Iterable[int], weight: float = 1.0) -> None:
        for m in members:
            self.load[m] += weight * self.one_more[m]

    def replicas(self, partition: int) -> list[int]:
        """Members that have one, stay and have no other role in it: the best first."""
        standbys = self.given.standbys.get(partition, {})
        old_owners = [m for m in self.given.claims[partition] if self.given.members[m].stays]
        busy = (self.owner[partition], self.learner.get(partition))
        best_first = old_owners + sorted(standbys, key=lambda m: (standbys[m], m))
        return [m for m in best_first if m not in busy]

    def known(self, partition: int, *, same_zone: bool) -> list[int]:
        """`replicas` in the owner's zone or outside of it."""
        zone = self.given.members[self.owner[partition]].zone
        return [
            m for m in self.replicas(partition) if (self.given.members[m].zone == zone) == same_zone
        ]

    def with_those_that_go(self, partition: int, chosen: tuple[int, ...]) -> tuple[int, ...]:
        """A replica stays until the one that comes in its place has caught up."""
        coming = sum(not self.given.has_state(m, partition) for m in chosen)
        if not coming:
            return chosen
        going = [m for m in self.replicas(partition) if m not in chosen]
        return chosen + tuple(going[:coming])

    def filled(self, partition: int, kept: tuple[int, ...], wanted: int) -> tuple[int, ...]:
        """`kept`, others of other zones, then those of the owner's zone."""
        chosen = list(kept)
        self._add_lightest(partition, chosen, wanted, same_zone=False)
        near = self.known(partition, same_zone=True)[: wanted - len(chosen)]
        self.count(near)
        chosen += near
        self._add_lightest(partition, chosen, wanted, same_zone=True)
        return tuple(chosen)

    def _add_lightest(
        self, partition: int, chosen: list[int], wanted: int, *, same_zone: bool
    ) -> None:
        owner, rows = self.owner[partition], self.given.members
        beyond = self.inside if same_zone else self.outside
        while len(chosen) < wanted:
            cost = self.load + beyond[rows[owner].zone]
            for m in chosen:
                cost += self.used[rows[m].zone]
            cost[list(self.given.unserved.get(partition, ()))] = np.inf
            cost[[owner, self.learner.get(partition, owner), *chosen]] = np.inf
            lightest = int(cost.argmin())
            if cost[lightest] == np.inf:
                return
            chosen.append(lightest)
            self.count((lightest,))
