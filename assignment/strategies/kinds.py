"""How a strategy is registered: once, here or, where it builds on those here, in __init__.py.

Pages, commands, checks, docs and the forms of cases list no strategies: they read what is said
here. Each serves server and client coordination alike. A stateful group uses none of them: there
the planner decides.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from assignment.strategies import consistent_hash, plain, sticky, weighted_sticky
from assignment.strategies.dense import Dealt, Owners
from assignment.strategies.given import Assigned, StrategyInput
from assignment.strategies.parameters import NoParameters
from assignment.strategies.problem import Problem

Strategy = Callable[[StrategyInput], Assigned]


@dataclass(frozen=True, slots=True)
class Kind:
    """`rule`, `takes` and `example`: what people read; the example may be typed as it stands.
    `parameters.read` makes what `owners` takes beside the problem, of values named as in its NAMES.

    `keeps`: a new number of members moves nothing between those that stay. `is_even`: its aim is
    the same number for each; `weighs`: unless weights or capacities differ. `zones_bind`: it leaves
    out what no member of the right zone is there for. `peers`: what cases call it. `whole`: a
    quicker way to the same when it takes no parameters.
    """

    owners: Callable[[Problem, Any], Owners]
    rule: str
    parameters: Any = NoParameters
    takes: str = "takes no parameters"
    example: str = ""
    _: KW_ONLY
    keeps: bool = False
    is_even: bool = True
    weighs: bool = False
    zones_bind: bool = False
    peers: tuple[str, ...] = ()
    whole: Callable[[StrategyInput], Dealt] | None = None


# They need nothing of each other: `zone_nearby` may deal by any of them inside a zone.
INNER: Mapping[str, Kind] = {
    "averagely": Kind(
        plain.averagely,
        "Blocks of neighbouring partitions, members by name.",
        peers=("rmq-avg",),
    ),
    "circle": Kind(
        plain.circle,
        "Partitions dealt in turn, members by name.",
        peers=("rmq-circle",),
    ),
    "consistent_hash": Kind(
        consistent_hash.owners,
        "A ring of hashes: who comes or goes moves only its own. Not even.",
        consistent_hash.Parameters,
        "virtual_nodes: points of each member, 10 when left out",
        '{"virtual_nodes": 100}',
        keeps=True,
        is_even=False,
        peers=("rmq-hash",),
    ),
    "join_order": Kind(
        plain.join_order,
        "Blocks of neighbouring partitions, members in the order they joined.",
    ),
    "range": Kind(
        plain.range_,
        "As averagely; members with an instance name come first and keep their place.",
        peers=("kafka-range", "kip848-range"),
    ),
    "round_robin": Kind(
        plain.round_robin,
        "Dealt in turn; members with an instance name come first.",
        peers=("kafka-roundrobin",),
    ),
    "sticky": Kind(
        lambda problem, _: sticky.owners(problem.dense),
        "Even, with the fewest moves. The default.",
        keeps=True,
        peers=("rmq-sticky", "seed-sticky", "kafka-sticky", "kafka-coop", "kip848-uniform"),
        whole=sticky.dealt,
    ),
    "weighted_sticky": Kind(
        weighted_sticky.owners,
        "Even by what partitions weigh and members can carry, then few moves.",
        weighted_sticky.Parameters,
        'weights: partitions to numbers, a list, or "measured" (events so far);'
        " default_weight; moves_max: per round",
        '{"weights": {"0-2": 50, "7": 10}, "moves_max": 20}',
        keeps=True,
        is_even=False,
        weighs=True,
    ),
}
