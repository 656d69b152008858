"""Sticky on what partitions weigh (records/s or lag) and members can carry.

The most loaded member's load over capacity is to be the least there is, then moves; a cap on moves
per round makes a large change a series of small ones. Finding the very least is as hard as packing,
so: equal weights and capacities are `sticky`, a small problem is searched through, and a large one
is improved from where it stands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from assignment.errors import InvalidInput
from assignment.strategies.dense import NOBODY, Owners
from assignment.strategies.loads import Loads, Ratios, units_of
from assignment.strategies.parameters import NUMBER_MAX, Span, only, span, weight, whole
from assignment.strategies.problem import Positions, Problem
from assignment.strategies.sticky import owners as sticky_owners
from assignment.strategies.weighted_exact import best, is_small
from assignment.strategies.weighted_search import improved

DEFAULT_WEIGHT = 1.0
MEASURED = "measured"  # in the place of weights: what the group has counted, see `with_measured`


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What partitions weigh; the unit does not matter. `listed`: those of the only topic, from
    partition 0; `weights`: of single ones and ranges; the others weigh `default_weight`.
    `moves_max`: of partitions that have an owner, per round; None: no cap.
    """

    NAMES: ClassVar[tuple[str, ...]] = ("weights", "default_weight", "moves_max")
    weights: Mapping[Span, float] = field(default_factory=dict)
    listed: tuple[float, ...] = ()
    default_weight: float = DEFAULT_WEIGHT
    moves_max: int | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """`weights` is an object of partitions, or of topics with a list each; a list; or MEASURED,
        which is all alike until it is measured.
        """
        only(values, cls.NAMES)
        given, most = values.get("weights", {}), values.get("moves_max")
        is_list = isinstance(given, list | tuple)
        return cls(
            weights={} if is_list or given == MEASURED else _weights(given),
            listed=tuple(weight("weight", v) for v in given) if is_list else (),
            default_weight=weight("default_weight", values.get("default_weight", DEFAULT_WEIGHT)),
            moves_max=None if most is None else whole("moves_max", most, 1, NUMBER_MAX),
        )


def with_measured(
    parameters: Mapping[str, Any], measure: Callable[[], Sequence[float]]
) -> Mapping[str, Any]:
    """The parameters with weights from partition 0 on, where they ask for measured ones.

    Also inside `inner_parameters`. A partition that did nothing yet weighs as the lightest that did
    something: nothing is known of it.
    """
    if "inner_parameters" in parameters:
        inner = parameters["inner_parameters"]
        if isinstance(inner, Mapping):
            return {**parameters, "inner_parameters": with_measured(inner, measure)}
    if parameters.get("weights") != MEASURED:
        return parameters
    weights = measure()
    least = min((w for w in weights if w > 0), default=DEFAULT_WEIGHT)
    return {**parameters, "weights": [max(w, least) for w in weights]}


def _weights(value: Any) -> dict[Span, float]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"weights is {value!r:.80}, not an object, a list or {MEASURED!r}")
    found: dict[Span, float] = {}
    for key, own in value.items():
        if isinstance(own, list | tuple):
            found |= {Span(key, n, n): weight(f"weight of {key}:{n}", v) for n, v in enumerate(own)}
        else:
            found[span("weights", key)] = weight(f"weight of {key}", own)
    return found


def owners(problem: Problem, parameters: Parameters) -> Owners:
    """Keeps what it can. InvalidInput names weights of partitions that are not there or are there
    twice, and a capacity that is not above 0.
    """
    if not problem.members:
        return problem.nobody()
    loads = Loads.of(problem, _units(problem, parameters), _capacities(problem))
    if loads.are_uniform:
        target = sticky_owners(problem.dense)
    elif is_small(loads):
        target = best(loads)
    else:
        return improved(loads, parameters.moves_max)
    return _first_moves(loads, target, parameters.moves_max)


def _units(problem: Problem, parameters: Parameters) -> Positions:
    weights = np.full(problem.dense.partitions, parameters.default_weight)
    if parameters.listed:
        _put_listed(problem, parameters.listed, weights)
    if missing := problem.missing(parameters.weights):
        raise InvalidInput(f"weights are given of partitions not there: {', '.join(missing)}")
    times = np.zeros(len(weights), dtype=np.int64)
    found = problem.slices(parameters.weights)
    for where, value in zip(found, parameters.weights.values(), strict=True):
        weights[where] = value
        times[where] += 1
    if len(twice := np.flatnonzero(times > 1)):
        raise InvalidInput(f"weights of {problem.named(twice)} are given more than once")
    return units_of(weights)


def _put_listed(problem: Problem, listed: Sequence[float], weights: Ratios) -> None:
    if missing := problem.missing([Span(None, 0, len(listed) - 1)]):
        raise InvalidInput(f"weights are given of partitions not there: {', '.join(missing)}")
    known = problem.numbers < len(listed)
    weights[known] = np.array(listed)[problem.numbers[known]]


def _capacities(problem: Problem) -> list[float]:
    for member in problem.members:
        if not 0 < member.capacity < np.inf:
            raise InvalidInput(
                f"capacity {member.capacity} of {member.member_id!r} is not above 0 and finite"
            )
    return [member.capacity for member in problem.members]


def _first_moves(loads: Loads, target: Owners, moves_max: int | None) -> Owners:
    """The target as far as the cap allows: the heaviest partitions move first.

    Every part of the least moves to a goal leaves the rest of them to be done, so rounds end.
    """
    moved = np.flatnonzero((loads.previous != NOBODY) & (loads.previous != target))
    if moves_max is None or len(moved) <= moves_max:
        return target
    late = moved[np.argsort(-loads.units[moved], kind="stable")][moves_max:]
    result = target.copy()
    result[late] = loads.previous[late]
    return result
