"""RocketMQ's AllocateMachineRoomNearby: a zone's partitions go to that zone's members."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from assignment.errors import InvalidInput
from assignment.strategies.dense import Owners
from assignment.strategies.kinds import INNER, Kind
from assignment.strategies.parameters import Span, mapping, only
from assignment.strategies.problem import Positions, Problem, read_at_all, scattered
from assignment.strategies.zone import read_zones, zone_of

DEFAULT_INNER = "averagely"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """partition_zones: zone -> its partitions; inner: strategy that deals within a zone."""

    NAMES: ClassVar[tuple[str, ...]] = ("partition_zones", "inner", "inner_parameters")

    inner: Kind
    inner_parameters: Any
    partition_zones: Mapping[str, tuple[Span, ...]]

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        only(values, cls.NAMES, ("partition_zones",))
        name = values.get("inner", DEFAULT_INNER)
        if not isinstance(name, str) or name not in INNER:
            raise InvalidInput(f"inner {name!r:.80} is not one of {', '.join(INNER)}")
        own = mapping("inner_parameters", values.get("inner_parameters", {}))
        return cls(
            inner=INNER[name],
            inner_parameters=INNER[name].parameters.read(own),
            partition_zones=read_zones(values["partition_zones"]),
        )


def owners(problem: Problem, parameters: Parameters) -> Owners:
    """Each zone by the inner strategy, over its own members where it has some that read the topic.

    Partitions of a zone without such members, or of no zone, are shared by all members: zone by
    zone, as in RocketMQ. A member without a zone gets a share of those only.
    """
    result = problem.nobody()
    for members, partitions in _shares(problem, parameters.partition_zones):
        inner = parameters.inner.owners(
            problem.part(members, partitions), parameters.inner_parameters
        )
        result = np.maximum(result, scattered(problem, partitions, members, inner))
    return result


def _shares(
    problem: Problem, partition_zones: Mapping[str, tuple[Span, ...]]
) -> Iterator[tuple[Positions, Positions]]:
    """(members, partitions) to be dealt among themselves; each partition is in exactly one."""
    zone = zone_of(problem, partition_zones)
    names = tuple(partition_zones)
    for index in range(-1, len(names)):
        name = names[index] if index >= 0 else ""
        here = np.array([m.zone == name != "" for m in problem.members], dtype=np.bool_)
        has_reader = read_at_all(problem.dense.subscribed & here)[problem.topic_of]
        for members, wanted in ((here, has_reader), (np.ones_like(here), ~has_reader)):
            partitions = _where((zone == index) & wanted)
            if len(partitions):
                yield _where(members), partitions


def _where(mask: npt.NDArray[np.bool_]) -> Positions:
    return np.flatnonzero(mask)
