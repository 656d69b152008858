"""Whether two ways differ, from runs that were made in pairs: one of each way, one after the other,
so that what else the machine does hits both alike. Pure.

The test is a permutation test of the paired differences: under "no difference" each could as well
have had the other sign. It assumes neither a distribution nor many runs. The interval is that of
the median difference by bootstrap (percentiles).
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

NAME = "paired permutation test (signs of the differences), two-sided; interval: bootstrap, 95 %"
EXACT_PAIRS = 12  # 4,096 ways to choose the signs; of more pairs as many are drawn
DRAWS = 4_096
SEED = 1


def compared(mine: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    """Differences are `mine` - `other`, pair by pair. Two pairs at least tell anything."""
    differences = np.array(mine, dtype=float) - np.array(other, dtype=float)
    known = len(differences) > 1
    return {
        "pairs": len(differences),
        "median_difference": float(np.median(differences)) if len(differences) else None,
        "interval": interval(differences) if known else None,
        "p": p_value(differences) if known else None,
    }


def p_value(differences: np.ndarray) -> float:
    """The share of all choices of signs whose mean is as far from 0 as that of what was seen."""
    count = len(differences)
    if count <= EXACT_PAIRS:
        signs = np.array(list(product((1, -1), repeat=count)))
    else:
        signs = np.random.default_rng(SEED).choice((1, -1), (DRAWS, count))
        signs[0] = 1  # what was seen is one of them
    means = np.abs(signs @ differences)
    return round(float(np.mean(means >= abs(differences.sum()) - 1e-9)), 4)


def interval(differences: np.ndarray) -> list[float]:
    """Within which the median difference lies, 95 %."""
    draws = np.random.default_rng(SEED).choice(differences, (DRAWS, len(differences)))
    low, high = np.percentile(np.median(draws, axis=1), (2.5, 97.5))
    return [round(float(low), 4), round(float(high), 4)]
