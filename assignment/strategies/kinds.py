"""The strategies that need nothing of each other, each with the parameters it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assignment.strategies import consistent_hash, plain, sticky, weighted_sticky
from assignment.strategies.dense import Owners
from assignment.strategies.parameters import NoParameters
from assignment.strategies.problem import Problem


@dataclass(frozen=True, slots=True)
class Inner:
    """`parameters.read` makes what `owners` takes beside the problem."""

    owners: Callable[[Problem, Any], Owners]
    parameters: Any = NoParameters


INNER: Mapping[str, Inner] = {
    "averagely": Inner(plain.averagely),
    "circle": Inner(plain.circle),
    "consistent_hash": Inner(consistent_hash.owners, consistent_hash.Parameters),
    "join_order": Inner(plain.join_order),
    "range": Inner(plain.range_),
    "round_robin": Inner(plain.round_robin),
    "sticky": Inner(lambda problem, _: sticky.owners(problem.dense)),
    "weighted_sticky": Inner(weighted_sticky.owners, weighted_sticky.Parameters),
}
