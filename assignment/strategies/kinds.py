"""The strategies that need nothing of each other, each with the parameters it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assignment.strategies import (
    averagely,
    circle,
    consistent_hash,
    join_order,
    range_,
    round_robin,
    sticky,
    weighted_sticky,
)
from assignment.strategies.dense import Owners
from assignment.strategies.parameters import NoParameters
from assignment.strategies.problem import Problem


@dataclass(frozen=True, slots=True)
class Inner:
    """`parameters.read` makes what `owners` takes beside the problem."""

    owners: Callable[[Problem, Any], Owners]
    parameters: Any = NoParameters


def _sticky(problem: Problem, _: NoParameters) -> Owners:
    return sticky.owners(problem.dense)


INNER: Mapping[str, Inner] = {
    "averagely": Inner(averagely.owners),
    "circle": Inner(circle.owners),
    "consistent_hash": Inner(consistent_hash.owners, consistent_hash.Parameters),
    "join_order": Inner(join_order.owners),
    "range": Inner(range_.owners),
    "round_robin": Inner(round_robin.owners),
    "sticky": Inner(_sticky),
    "weighted_sticky": Inner(weighted_sticky.owners, weighted_sticky.Parameters),
}
