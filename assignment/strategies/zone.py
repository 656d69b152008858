"""RocketMQ's AllocateMessageQueueByMachineRoom: only partitions of the allowed zones are given."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from assignment.errors import InvalidInput
from assignment.strategies.dense import Owners
from assignment.strategies.parameters import Span, mapping, only, spans, texts
from assignment.strategies.problem import Problem

NO_ZONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """partition_zones: zone -> its partitions; those that are in none have no zone."""

    NAMES: ClassVar[tuple[str, ...]] = ("allowed_zones", "partition_zones")

    allowed_zones: tuple[str, ...]
    partition_zones: Mapping[str, tuple[Span, ...]]

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        only(values, cls.NAMES, required=cls.NAMES)
        return cls(
            allowed_zones=texts("allowed_zones", values["allowed_zones"]),
            partition_zones=read_zones(values["partition_zones"]),
        )


def read_zones(value: Any) -> dict[str, tuple[Span, ...]]:
    """By name of the zone."""
    given = mapping("partition_zones", value)
    return {z: spans(f"partition_zones of {z!r}", own) for z, own in sorted(given.items())}


def owners(problem: Problem, parameters: Parameters) -> Owners:
    """Per topic: blocks of floor(n / m) partitions, the remainder one each from the tail.

    4 partitions, 3 members: 0 3, 1, 2. Partitions of other zones, or of none, are nobody's.
    InvalidInput names partitions that are not there, or in two zones.
    """
    zones = tuple(parameters.partition_zones)
    allowed = [zones.index(zone) for zone in parameters.allowed_zones if zone in zones]
    is_allowed = np.isin(zone_of(problem, parameters.partition_zones), allowed)
    result = problem.nobody()
    for topic in problem.topics():
        given = topic.start + np.flatnonzero(is_allowed[topic.start : topic.end])
        block, rest = divmod(len(given), len(topic.readers))
        in_blocks = np.repeat(topic.readers, block)
        result[given] = np.concatenate((in_blocks, topic.readers[:rest]))
    return result


def zone_of(
    problem: Problem, partition_zones: Mapping[str, tuple[Span, ...]]
) -> npt.NDArray[np.int64]:
    """[P] index of each partition's zone among the names, NO_ZONE where there is none."""
    found = np.full(problem.dense.partitions, NO_ZONE, dtype=np.int64)
    times = np.zeros(problem.dense.partitions, dtype=np.int64)
    for index, (zone, own) in enumerate(partition_zones.items()):
        if missing := problem.missing(own):
            raise InvalidInput(f"zone {zone!r} has partitions not there: {', '.join(missing)}")
        for where in problem.slices(own):
            found[where] = index
            times[where] += 1
    if len(twice := np.flatnonzero(times > 1)):
        raise InvalidInput(f"partition_zones: {problem.named(twice)} more than once")
    return found
