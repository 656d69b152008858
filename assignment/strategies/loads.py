"""Weights and capacities as numbers that add up the same in whatever order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from assignment.strategies.dense import Owners
from assignment.strategies.problem import Positions, Problem

Ratios = npt.NDArray[np.float64]  # load over capacity
_DECIMALS_MAX = 6
_SUM_MAX = 2**53  # floats count whole numbers exactly up to here
_SCALE = 2**20  # of the heaviest partition, when weights are no short decimals


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """units [P]: weight of each partition; capacity [N]; readers [T, N]: who may own of a topic;
    topic_of [P]; is_read [P]: whether anybody may own it; previous [P]: owners so far.
    """

    units: Positions
    capacity: Ratios
    readers: npt.NDArray[np.bool_]
    topic_of: Positions
    is_read: npt.NDArray[np.bool_]
    previous: Owners

    @classmethod
    def of(cls, problem: Problem, units: Positions, capacities: Sequence[float]) -> Self:
        return cls(
            units=units,
            capacity=np.array(capacities, dtype=np.float64),
            readers=problem.dense.subscribed,
            topic_of=problem.topic_of,
            is_read=problem.is_read,
            previous=problem.dense.previous,
        )

    @property
    def are_uniform(self) -> bool:
        """Counting partitions says it all."""
        return len(np.unique(self.units)) <= 1 and len(np.unique(self.capacity)) <= 1

    def sums(self, owners: Owners) -> Positions:
        """[N] units of each member."""
        held = owners >= 0
        sums = np.zeros(len(self.capacity), dtype=np.int64)
        np.add.at(sums, owners[held], self.units[held])
        return sums


def units_of(weights: Ratios) -> Positions:
    """Whole numbers in the proportion of the weights: exact for short decimals, else to a millionth
    of the heaviest. What weighs something stays above 0.
    """
    for decimals in range(_DECIMALS_MAX + 1):
        scaled = weights * 10.0**decimals
        units = np.rint(scaled)
        if units.sum() >= _SUM_MAX:
            break
        if np.allclose(scaled, units, rtol=1e-12, atol=0):
            return units.astype(np.int64)
    heaviest = weights.max(initial=0)
    return np.where(weights > 0, np.maximum(np.rint(weights / heaviest * _SCALE), 1), 0).astype(
        np.int64
    )
