"""Figures of a rebalance: how even, how sticky, how fast, and what was without an owner meanwhile.

Rules: assignment.md, metrics. A figure that cannot be known is None, never 0.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

from assignment.errors import InvalidInput

P = TypeVar("P", bound=Hashable)  # whatever names a partition

# --- evenness: `loads` are partitions owned, one number for each member, idle ones included ---


def balance_degree(loads: Collection[int]) -> float | None:
    """Standard deviation of the loads, population form. None without members."""
    if not loads:
        return None
    mean = sum(loads) / len(loads)
    return math.sqrt(sum((load - mean) ** 2 for load in loads) / len(loads))


def max_minus_min(loads: Collection[int]) -> int | None:
    """None without members."""
    return max(loads) - min(loads) if loads else None


def max_over_mean(loads: Collection[int]) -> float | None:
    """1.0 is even. None without members, and when nothing is owned."""
    return max(loads) * len(loads) / sum(loads) if loads and sum(loads) else None


def score(loads: Collection[int]) -> float | None:
    """100 exactly when max - min <= 1, 0 when one of several members owns all. None without any.

    Between them: the share of partitions that need not move to become even, against the worst case.
    """
    if not loads:
        return None
    if max(loads) - min(loads) <= 1:
        return 100.0
    owned = sum(loads)
    worst = owned - -(-owned // len(loads))
    return 100.0 * (1 - (owned - most_kept(loads, owned)) / worst)


def most_kept(loads: Collection[int], partitions: int) -> int:
    """How many of the owned partitions can stay where they are if all `partitions` end up even.

    For members with equal subscriptions: the larger quotas go to those who hold most.
    """
    if not loads:
        return 0
    smaller, larger_count = divmod(partitions, len(loads))
    ranked = sorted(loads, reverse=True)
    return sum(
        min(load, smaller + (1 if rank < larger_count else 0)) for rank, load in enumerate(ranked)
    )


# --- movement ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """What became of the partitions that existed before and after and had an owner before.

    `counted` is how many those are: the denominator of both stickinesses. `kept_best` is the most
    that any balanced assignment could have kept of them; None where equal counts were not the aim,
    for then nobody knows it.
    """

    counted: int
    kept: int
    kept_best: int | None

    @property
    def moves(self) -> int:
        """Partitions that have another owner now, or none any more."""
        return self.counted - self.kept

    @property
    def avoidable_moves(self) -> int | None:
        return None if self.kept_best is None else max(0, self.kept_best - self.kept)

    @property
    def stickiness(self) -> float | None:
        return self.kept / self.counted if self.counted else None

    @property
    def stickiness_best(self) -> float | None:
        return (
            self.kept_best / self.counted if self.counted and self.kept_best is not None else None
        )


def movement(
    before: Mapping[P, str],
    after: Mapping[P, str],
    members: Collection[str] | None,
    existing: int,
) -> Movement:
    """Compares owners before and after. `members`: who may own now, with equal subscriptions; None:
    equal counts were not the aim. `existing`: partitions now.

    `before` holds the partitions that still exist and had an owner.
    """
    loads = Counter(owner for owner in before.values())
    best = None
    if members is not None:
        best = most_kept([loads[member] for member in members], existing)
    return Movement(
        counted=len(before),
        kept=sum(after.get(partition) == owner for partition, owner in before.items()),
        kept_best=best,
    )


# --- time ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Time consumption of a rebalance in ms; None where a phase did not happen or is not known yet.

    detect: from the change to the start of the run; compute: to the stored target; deliver: to the
    last agent that has it; revoke: to the last release; acquire: to the last acquire; first_effect:
    to the first commit under the last fence.
    """

    detect: int | None = None
    compute: int | None = None
    deliver: int | None = None
    revoke: int | None = None
    acquire: int | None = None
    first_effect: int | None = None

    def __post_init__(self) -> None:
        for name in PHASES:
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InvalidInput(f"phase {name} lasts {value} ms, below 0")

    @property
    def total(self) -> int | None:
        """Sum of the known phases; None when none is known."""
        known = [value for name in PHASES if (value := getattr(self, name)) is not None]
        return sum(known) if known else None


PHASES = tuple(f.name for f in fields(Phases))
