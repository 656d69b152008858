"""What the planner is given and what it answers. Generic in what names a partition.

Production names partitions by `assignment.types.Partition`, the command by strings. Names need an
order and nothing else: every list is sorted by it, strings plainly (T10 comes before T2).
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from assignment.errors import InvalidInput


class Ordered(Protocol):
    """Can be sorted, and be a key."""

    def __lt__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...


P = TypeVar("P", bound=Ordered)
# Generic classes have no slots: with them Python 3.11 cannot make a MemberView[str](...).

TOLERANCE_MAX = 10.0  # eleven times one's share: beyond, nothing is balanced at all


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSettings:
    """Per group. The planner reads standby_replicas, learners_max and tolerance; members the rest.

    `tolerance`: by which share of its quota a member may be above it before it gives any away.
    """

    standby_replicas: int = 0
    learners_max: int = 0  # at one time in the group; 0 = no limit
    acceptable_lag_records: int = 0  # 0 = fully restored
    learn_partial_rebalance: bool = True  # a rebalance for each ready learner, not one for all
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        for name in ("standby_replicas", "learners_max", "acceptable_lag_records"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"{name} {getattr(self, name)} is below 0")
        if not 0 <= self.tolerance <= TOLERANCE_MAX:
            raise InvalidInput(f"tolerance {self.tolerance} is not within 0 and {TOLERANCE_MAX}")


@dataclass(frozen=True, slots=True)
class Learner:
    """A replica that catches up. `lag_records` None: not known yet. `ready`: as its member says."""

    lag_records: int | None = None
    ready: bool = False


@dataclass(frozen=True, kw_only=True)
class MemberView(Generic[P]):
    """What one member reports, with what the stored target gives it and no able member reports.

    `forced`: its time limit has run out (S5); it goes at once, told to leave or not.
    """

    member_id: str
    able: bool = True
    joined_at_ms: int = 0
    leaving: bool = False
    forced: bool = False
    zone: str = ""
    capacity: float = 1.0  # share of the work, relative to the others
    owned: Collection[P] = frozenset()
    standby: Mapping[P, int | None] = field(default_factory=dict)  # -> lag_records, None unknown
    caught_up: Collection[P] = frozenset()  # of its standbys those that once had all of the state
    learning: Mapping[P, Learner] = field(default_factory=dict)
    unserved: Collection[P] = frozenset()  # it can have no role in these now

    def __post_init__(self) -> None:
        if not self.member_id:
            raise InvalidInput("a member id is empty: ''")
        if not 0 < self.capacity < math.inf:
            raise InvalidInput(
                f"capacity {self.capacity!r} of {self.member_id!r} is not a number above 0"
            )
        lags = [*self.standby.items(), *((p, c.lag_records) for p, c in self.learning.items())]
        for partition, lag in lags:
            if lag is not None and lag < 0:
                raise InvalidInput(f"lag {lag} of {partition} on {self.member_id!r} is below 0")

    @property
    def is_leaving(self) -> bool:
        return self.leaving or self.forced

    @property
    def stays(self) -> bool:
        """May be given something new (S4, L5)."""
        return self.able and not self.is_leaving


@dataclass(frozen=True, kw_only=True)
class GroupView(Generic[P]):
    """The whole input of one round; order carries no meaning. A member that is absent is dead.

    InvalidInput names a member or a partition that is there twice.
    """

    partitions: Collection[P]
    members: Collection[MemberView[P]]
    stateful: bool = True
    settings: LearnerSettings = field(default_factory=LearnerSettings)

    def __post_init__(self) -> None:
        refuse_twice("partition", self.partitions)
        refuse_twice("member id", (member.member_id for member in self.members))


def refuse_twice(kind: str, names: Iterable[Hashable]) -> None:
    """InvalidInput names the first of the repeated ones."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidInput(f"{kind} {min(map(str, repeated))!r} is there twice")


@dataclass(frozen=True, kw_only=True)
class MemberAssignment(Generic[P]):
    """One member's part, each ascending. `revoked` is all it owned and does not keep."""

    assigned: tuple[P, ...] = ()
    revoked: tuple[P, ...] = ()
    standby: tuple[P, ...] = ()
    learning: tuple[P, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Assignment(Generic[P]):
    """The answer of one round, by ascending names.

    moves: partitions that an able member of the view owned (a forced one too) and that none of
    those who did owns now. balanced: among the members that stay, no partition could go from one
    to another so that the fuller of the two, by assigned over capacity, becomes less full; with
    equal capacities that is max - min <= 1, and without any such member it is true. Where members
    cannot serve some partitions, it may be false for good.
    waiting: learners that learners_max holds back. unowned: nobody is there who may own them.
    missing_standbys: how many are missing of each partition that has too few.
    """

    members: Mapping[str, MemberAssignment[P]]
    moves: int
    balanced: bool
    waiting: int
    unowned: tuple[P, ...]
    missing_standbys: Mapping[P, int]
