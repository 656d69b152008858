"""The view in integers: partitions and members by their rank, so that ties are numbers too."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Self, TypeVar

from assignment.planner.values import GroupView, Learner, MemberView, P

NOBODY = -1

T = TypeVar("T")
Replicas = Mapping[int, Mapping[int, T]]  # partition -> member -> what it says of its replica


@dataclass(frozen=True, kw_only=True)
class Indexed(Generic[P]):
    """Partitions and members ascending by name; the indexes below are theirs.

    claims [partitions]: the able members that own it, leaving and forced ones too. learners and
    standbys: of members that stay and do not own the partition; empty for a stateless group (L9).
    weights [members]: capacities in whole numbers, in the same proportion. unserved: partition ->
    members that cannot serve it; there these are neither in claims nor in learners nor standbys.
    """

    partitions: tuple[P, ...]
    members: tuple[MemberView[P], ...]
    weights: tuple[int, ...]
    staying: tuple[int, ...]
    claims: tuple[tuple[int, ...], ...]
    learners: Replicas[Learner]
    standbys: Replicas[float]
    unserved: Mapping[int, frozenset[int]]

    @classmethod
    def of(cls, view: GroupView[P]) -> Self:
        partitions = tuple(sorted(view.partitions))
        members = tuple(sorted(view.members, key=lambda member: member.member_id))
        index = {partition: rank for rank, partition in enumerate(partitions)}
        keepers = {m: row for m, row in enumerate(members) if row.stays and view.stateful}
        learning = {m: row.learning for m, row in keepers.items()}
        lags = {
            m: {p: lag_order(lag) for p, lag in row.standby.items()} for m, row in keepers.items()
        }
        return cls(
            partitions=partitions,
            members=members,
            weights=whole_weights([row.capacity for row in members]),
            staying=tuple(m for m, row in enumerate(members) if row.stays),
            claims=_claims(index, members),
            learners=_replicas(index, members, learning),
            standbys=_replicas(index, members, lags),
            unserved=_unserved(index, members),
        )

    def can_serve(self, member: int, partition: int) -> bool:
        return member not in self.unserved.get(partition, ())

    def has_state(self, member: int, partition: int) -> bool:
        """It owns the partition, or its replica has caught up."""
        caught_up = self.partitions[partition] in self.members[member].caught_up
        return caught_up or member in self.claims[partition]

    def able(self, partition: int) -> list[int]:
        """The members that stay and can serve it."""
        return [m for m in self.staying if self.can_serve(m, partition)]

    @property
    def served(self) -> int:
        """How many partitions some member that stays can serve."""
        staying = set(self.staying)
        return len(self.partitions) - sum(staying <= who for who in self.unserved.values())

    def live_claims(self, partition: int) -> list[int]:
        """Its owners that may go on: not the forced ones, which stop at once (S5)."""
        return [m for m in self.claims[partition] if not self.members[m].forced]


def lag_order(lag_records: int | None) -> float:
    """An unknown lag comes last."""
    return math.inf if lag_records is None else lag_records


def whole_weights(capacities: Iterable[float]) -> tuple[int, ...]:
    """0.1 and 0.3 are 1 and 3: as written, not as stored, so that equal loads compare equal."""
    exact = [Fraction(str(capacity)) for capacity in capacities]
    scale = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    shared = math.gcd(*whole)
    return tuple(weight // shared for weight in whole)


def _claims(
    index: Mapping[P, int], members: tuple[MemberView[P], ...]
) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in index]
    for m, member in enumerate(members):
        for partition in set(member.owned).difference(member.unserved) if member.able else ():
            if partition in index:
                found[index[partition]].append(m)
    return tuple(map(tuple, found))


def _replicas(
    index: Mapping[P, int],
    members: tuple[MemberView[P], ...],
    reported: Mapping[int, Mapping[P, T]],
) -> dict[int, dict[int, T]]:
    found: dict[int, dict[int, T]] = {}
    for m, replicas in reported.items():
        owned = {*members[m].owned, *members[m].unserved}
        for partition, said in replicas.items():
            if partition in index and partition not in owned:
                found.setdefault(index[partition], {})[m] = said
    return found


def _unserved(
    index: Mapping[P, int], members: tuple[MemberView[P], ...]
) -> dict[int, frozenset[int]]:
    found: dict[int, set[int]] = {}
    for m, member in enumerate(members):
        for partition in member.unserved:
            if partition in index:
                found.setdefault(index[partition], set()).add(m)
    return {partition: frozenset(found[partition]) for partition in sorted(found)}
