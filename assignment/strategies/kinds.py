"""The strategies that need nothing of each other, each with the parameters it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assignment.strategies.averagely import owners as averagely
from assignment.strategies.circle import owners as circle
from assignment.strategies.consistent_hash import Parameters as ConsistentHash
from assignment.strategies.consistent_hash import owners as consistent_hash
from assignment.strategies.dense import Owners
from assignment.strategies.join_order import owners as join_order
from assignment.strategies.parameters import NoParameters
from assignment.strategies.problem import Problem
from assignment.strategies.range_ import owners as range_
from assignment.strategies.round_robin import owners as round_robin
from assignment.strategies.sticky import owners as sticky
from assignment.strategies.weighted_sticky import Parameters as WeightedSticky
from assignment.strategies.weighted_sticky import owners as weighted_sticky


@dataclass(frozen=True, slots=True)
class Inner:
    """`parameters.read` makes what `owners` takes beside the problem."""

    owners: Callable[[Problem, Any], Owners]
    parameters: Any = NoParameters


def _sticky(problem: Problem, _: NoParameters) -> Owners:
    return sticky(problem.dense)


INNER: Mapping[str, Inner] = {
    "averagely": Inner(averagely),
    "circle": Inner(circle),
    "consistent_hash": Inner(consistent_hash, ConsistentHash),
    "join_order": Inner(join_order),
    "range": Inner(range_),
    "round_robin": Inner(round_robin),
    "sticky": Inner(_sticky),
    "weighted_sticky": Inner(weighted_sticky, WeightedSticky),
}
