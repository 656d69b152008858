"""Figures of a rebalance: how even, how sticky.

Rules: assignment.md, metrics. A figure that cannot be known is None, never 0.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

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
        best = self.kept_best
        return best / self.counted if self.counted and best is not None else None


def movement(
    before: Mapping[P, str], after: Mapping[P, str], members: Collection[str] | None, existing: int
) -> Movement:
    """Compares owners before and after. `members`: who may own now, with equal subscriptions; None:
    equal counts were not the aim. `existing`: partitions now.

    `before` holds the partitions that still exist and had an owner.
    """
    loads = Counter(before.values())
    best = None
    if members is not None:
        best = most_kept([loads[member] for member in members], existing)
    return Movement(
        counted=len(before),
        kept=sum(after.get(partition) == owner for partition, owner in before.items()),
        kept_best=best,
    )
