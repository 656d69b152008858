"""Strategies by name: who should own what, given the members and what they hold already.

`get(name, parameters)` is the one way in. A strategy is a function from `StrategyInput` to
`Assigned`; it is deterministic and gives each partition of a subscribed topic to exactly one
subscribed member. Only `zone` leaves some out: those of zones that are not allowed.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from assignment.errors import InvalidInput
from assignment.settings import DEFAULTS
from assignment.strategies import config, zone, zone_nearby
from assignment.strategies.dense import Dealt
from assignment.strategies.given import StrategyInput
from assignment.strategies.kinds import INNER
from assignment.strategies.kinds import Kind as Kind
from assignment.strategies.kinds import Strategy as Strategy
from assignment.strategies.problem import Problem
from assignment.types import Member

DEFAULT: str = DEFAULTS["strategy"]

KINDS: Mapping[str, Kind] = {
    **INNER,
    "config": Kind(
        config.owners,
        "A fixed map. While it does not fit the members, nothing moves.",
        config.Parameters,
        "needs config_map: member to partitions; each partition once",
        '{"config_map": {"m1": ["0-5"], "m2": ["6-11"]}}',
        is_even=False,
        peers=("rmq-config",),
    ),
    "zone": Kind(
        zone.owners,
        "Only partitions of the allowed zones are given out; the others have no owner.",
        zone.Parameters,
        "needs allowed_zones and partition_zones: zone to partitions",
        '{"allowed_zones": ["east"], "partition_zones": {"east": ["0-5"], "west": ["6-11"]}}',
        is_even=False,
        zones_bind=True,
        peers=("rmq-room",),
    ),
    "zone_nearby": Kind(
        zone_nearby.owners,
        "Each zone's partitions go to its own members; without such, to all.",
        zone_nearby.Parameters,
        "needs partition_zones; inner: strategy within a zone, averagely when left out;"
        " inner_parameters",
        '{"partition_zones": {"east": ["0-5"], "west": ["6-11"]}, "inner": "sticky"}',
        is_even=False,
        peers=("rmq-nearby-avg",),
    ),
}
NAMES = tuple(sorted(KINDS))


def get(name: str, parameters: Mapping[str, Any] | None = None) -> Strategy:
    """The strategy with its parameters, which are values as JSON has them.

    InvalidInput names an unknown strategy and the known ones, and parameters that are unknown,
    missing or wrong. Whether they fit the members and partitions, the strategy says when it runs.
    """
    run = dealing(name, parameters)
    return lambda given: run(given).named


def dealing(name: str, parameters: Mapping[str, Any] | None = None) -> Callable[..., Dealt]:
    """The same in numbers, of one StrategyInput."""
    kind = KINDS[known(name)]
    try:
        chosen = kind.parameters.read(parameters or {})
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from error
    return kind.whole or partial(_deal, kind, chosen)


def known(name: str) -> str:
    """The name itself. InvalidInput names the known ones."""
    if name not in KINDS:
        raise InvalidInput(f"strategy {name!r} is not known; known are {', '.join(NAMES)}")
    return name


def even_is_best(name: str, parameters: Mapping[str, Any], members: Iterable[Member]) -> bool:
    """Whether nothing counts but the number of partitions, so that the least moves are known."""
    if not KINDS[name].weighs:
        return True
    return not parameters.get("weights") and len({m.capacity for m in members}) <= 1


def _deal(kind: Kind, parameters: Any, given: StrategyInput) -> Dealt:
    problem = Problem.of(given)
    return Dealt(problem.dense, kind.owners(problem, parameters))
