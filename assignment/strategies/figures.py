"""All figures of one assignment, against what was owned before it."""

from collections.abc import Mapping
from dataclasses import dataclass

from assignment import metrics, strategies
from assignment.metrics import Movement
from assignment.strategies.given import Assigned, StrategyInput
from assignment.types import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is None is not known. `sizes`: partitions of each member.

    `moves` counts partitions that had an owner and have another one or none; `least_moves` is the
    least number with which the most even loads can be had.
    """

    sizes: Mapping[str, int]
    moves: int
    least_moves: int | None
    avoidable_moves: int | None
    balance_degree: float | None
    max_minus_min: int | None
    max_over_mean: float | None
    score: float | None
    stickiness: float | None
    stickiness_best: float | None


def of_assignment(
    given: StrategyInput,
    assigned: Assigned,
    before: Mapping[Partition, str],
    *,
    even_is_best: bool = True,
) -> Figures:
    """`before`: existing partition -> its owner, gone ones included, as far as `given` tells the
    same of members that are still there. `even_is_best` False: the aim was not equal counts, so
    nobody knows what the least is.
    """
    sizes = {member: len(own) for member, own in assigned.items()}
    best = best_kept(given, before) if even_is_best else None
    moved = Movement(counted=len(before), kept=_kept(assigned, before), kept_best=best)
    return Figures(
        sizes=sizes,
        moves=moved.moves,
        least_moves=None if best is None else moved.counted - best,
        avoidable_moves=moved.avoidable_moves,
        balance_degree=metrics.balance_degree(sizes.values()),
        max_minus_min=metrics.max_minus_min(sizes.values()),
        max_over_mean=metrics.max_over_mean(sizes.values()),
        score=metrics.score(sizes.values()),
        stickiness=moved.stickiness,
        stickiness_best=moved.stickiness_best,
    )


def best_kept(given: StrategyInput, before: Mapping[Partition, str]) -> int:
    """How many partitions the most even assignment can leave with their owners.

    Asked of `sticky`, which reaches the least moves also where subscriptions differ.
    """
    return _kept(strategies.get(strategies.DEFAULT)(given), before)


def _kept(assigned: Assigned, before: Mapping[Partition, str]) -> int:
    return sum(before.get(p) == member for member, own in assigned.items() for p in own)
