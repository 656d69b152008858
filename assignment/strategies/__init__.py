"""Strategies by name: who should own what, given the members and what they hold already.

`get(name, parameters)` is the one way in. A strategy is a function from `StrategyInput` to
`Assigned`; it is deterministic and gives each partition of a subscribed topic to exactly one
subscribed member. Only `zone` leaves some out: those of zones that are not allowed.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from assignment.errors import InvalidInput
from assignment.strategies import config, sticky, zone, zone_nearby
from assignment.strategies.given import Assigned, StrategyInput
from assignment.strategies.kinds import INNER, Inner
from assignment.strategies.problem import Problem
from assignment.types import Member

Strategy = Callable[[StrategyInput], Assigned]
DEFAULT = "sticky"

_KINDS: Mapping[str, Inner] = {
    **INNER,
    "config": Inner(config.owners, config.Parameters),
    "zone": Inner(zone.owners, zone.Parameters),
    "zone_nearby": Inner(zone_nearby.owners, zone_nearby.Parameters),
}
NAMES = tuple(sorted(_KINDS))


def get(name: str, parameters: Mapping[str, Any] | None = None) -> Strategy:
    """The strategy with its parameters, which are values as JSON has them.

    InvalidInput names an unknown strategy and the known ones, and parameters that are unknown,
    missing or wrong. Whether they fit the members and partitions, the strategy says when it runs.
    """
    kind = _KINDS[known(name)]
    try:
        chosen = kind.parameters.read(parameters or {})
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from error
    return sticky.assign if name == "sticky" else partial(_assign, kind, chosen)


def known(name: str) -> str:
    """The name itself. InvalidInput names the known ones."""
    if name not in _KINDS:
        raise InvalidInput(f"strategy {name!r} is not known; known are {', '.join(NAMES)}")
    return name


def even_is_best(name: str, parameters: Mapping[str, Any], members: Iterable[Member]) -> bool:
    """Whether nothing counts but the number of partitions, so that the least moves are known."""
    if name != "weighted_sticky":
        return True
    return not parameters.get("weights") and len({m.capacity for m in members}) <= 1


def _assign(kind: Inner, parameters: Any, given: StrategyInput) -> Assigned:
    problem = Problem.of(given)
    return problem.dense.named(kind.owners(problem, parameters))
