"""Even shares by capacity, against all possible splits."""

from itertools import combinations

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.metrics import max_minus_min
from assignment.planner.indexed import whole_weights
from assignment.planner.loads import even_shares, is_even
from tests.assignment.planner_checks import splits

some_weights = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@over(st.integers(0, 9), some_weights)
def test_even_shares_are_exactly_the_splits_that_no_move_improves(
    total: int, weights: list[int]
) -> None:
    shares = even_shares(total, weights)
    tied = [i for i, yes in enumerate(shares.tied) if yes]
    described = {
        tuple(low + (i in more) for i, low in enumerate(shares.low))
        for more in combinations(tied, shares.extra)
    }
    even = {
        split
        for split in splits(total, len(weights))
        if not any(
            split[i] * weights[j] > (split[j] + 1) * weights[i]
            for i in range(len(weights))
            for j in range(len(weights))
            if split[i]
        )
    }
    assert described == even
    assert all(is_even(split, weights) for split in even)


@over(st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_with_equal_weights_even_is_one_apart_at_most(counts: list[int]) -> None:
    apart = max_minus_min(counts)
    assert is_even(counts, [1] * len(counts)) == (apart is not None and apart <= 1)


@pytest.mark.parametrize(
    ("capacities", "weights"),
    [
        ([0.1, 0.3], (1, 3)),
        ([1, 1.0, 1], (1, 1, 1)),
        ([2.5, 5], (1, 2)),
        ([1e-9, 1000], (1, 10**12)),
        ([], ()),
    ],
)
def test_capacities_are_weighed_as_they_are_written(
    capacities: list[float], weights: tuple[int, ...]
) -> None:
    assert whole_weights(capacities) == weights


def test_nobody_and_nothing_are_even() -> None:
    assert even_shares(5, ()).low == ()
    assert even_shares(0, (1, 2)).low == (0, 0)
    assert is_even((), ())
