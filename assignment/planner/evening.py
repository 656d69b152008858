"""Standbys per member, over capacity, differ by at most one where zones and roles allow it, by the
fewest moves (L13).

Each step takes a standby from the fullest member that can give one, to the lightest that can have
it, the lowest partition first; over others where it cannot go at once. Replicas that are there
already are used before any is made, so that a view in which some are on their way gives the same.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Generic

from assignment.planner.indexed import Indexed
from assignment.planner.values import P

Chosen = Mapping[int, tuple[int, ...]]  # partition -> members


def even_out(
    given: Indexed[P],
    owner: Sequence[int],
    chosen: Chosen,
    replicas: Callable[[int], Sequence[int]],
) -> dict[int, tuple[int, ...]]:
    """`replicas`: members that have one of a partition. Nothing may be learned."""
    standbys = _Evening(given, owner, chosen)
    there = {p: frozenset(found) for p in chosen if len(found := replicas(p)) > len(chosen[p])}
    standbys.even(lambda p, member: member in there.get(p, ()))
    standbys.even(lambda p, member: True)
    return standbys.chosen


class _Evening(Generic[P]):
    """held [members]: the partitions of which it is chosen for a standby."""

    def __init__(self, given: Indexed[P], owner: Sequence[int], chosen: Chosen) -> None:
        self.given, self.owner, self.chosen = given, owner, dict(chosen)
        self.zone = [member.zone for member in given.members]
        self.held: list[set[int]] = [set() for _ in given.members]
        for partition, members in chosen.items():
            for m in members:
                self.held[m].add(partition)

    def even(self, may_have: Callable[[int, int], bool]) -> None:
        """`may_have`: of a partition and a member, whether this one may take it."""
        while self._step(may_have):
            pass

    def _step(self, may_have: Callable[[int, int], bool]) -> bool:
        """Whether there was one. Whoever cannot give reaches nobody who could."""
        hopeless: set[int] = set()
        for giver in sorted(self.given.staying, key=lambda m: (-self._load(m, 0), m)):
            if giver not in hopeless and self._gives(giver, may_have, hopeless):
                return True
        return False

    def _load(self, member: int, more: int) -> float:
        return (len(self.held[member]) + more) / self.given.weights[member]

    def _helps(self, giver: int, taker: int) -> bool:
        weights = self.given.weights
        after = (len(self.held[taker]) + 1) * weights[giver]
        return after < len(self.held[giver]) * weights[taker]

    def _gives(self, giver: int, may_have: Callable[[int, int], bool], hopeless: set[int]) -> bool:
        lightest_first = sorted(self.given.staying, key=lambda m: (self._load(m, 1), m))
        if not self._helps(giver, lightest_first[0]):
            return False
        ways: dict[int, list[tuple[int, int, int]]] = {giver: []}
        at = deque([giver])
        while at:
            member = at.popleft()
            for taker in lightest_first:
                if taker in ways or (found := self._passed(member, taker, may_have)) is None:
                    continue
                ways[taker] = [*ways[member], (found, member, taker)]
                if self._helps(giver, taker):
                    for move in ways[taker]:
                        self._move(*move)
                    return True
                at.append(taker)
        hopeless.update(ways)
        return False

    def _passed(self, giver: int, taker: int, may_have: Callable[[int, int], bool]) -> int | None:
        fits = (p for p in self.held[giver] if may_have(p, taker) and self._fits(p, giver, taker))
        return min(fits, default=None)

    def _fits(self, partition: int, giver: int, taker: int) -> bool:
        chosen = self.chosen[partition]
        if taker == self.owner[partition] or taker in chosen:
            return False
        return self.given.can_serve(taker, partition) and self._as_far(partition, giver, taker)

    def _as_far(self, partition: int, giver: int, taker: int) -> bool:
        """No fewer standbys outside of the owner's zone, and no fewer zones with one."""
        zone = self.zone
        if zone[giver] == zone[taker]:
            return True
        here = zone[self.owner[partition]]
        others = {zone[m] for m in self.chosen[partition] if m != giver}
        if zone[taker] == here:
            return False
        return zone[giver] in {here, *others} or zone[taker] not in others

    def _move(self, partition: int, giver: int, taker: int) -> None:
        rest = tuple(m for m in self.chosen[partition] if m != giver)
        self.chosen[partition] = (*rest, taker)
        self.held[giver].remove(partition)
        self.held[taker].add(partition)
