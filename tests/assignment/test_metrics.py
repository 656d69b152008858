"""Figures: known values, limits, and what is unknown."""

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment import metrics
from assignment.metrics import Movement

loads = st.lists(st.integers(0, 50), max_size=12)


def test_balance_degree_is_the_population_form() -> None:
    assert metrics.balance_degree([4, 4, 4]) == 0
    assert metrics.balance_degree([2, 4]) == 1.0
    assert metrics.balance_degree([8, 0]) == 4.0


@pytest.mark.parametrize(
    "figure",
    [metrics.balance_degree, metrics.max_minus_min, metrics.max_over_mean, metrics.score],
)
def test_without_members_a_figure_is_unknown(figure) -> None:
    assert figure([]) is None


def test_max_over_mean_is_unknown_when_nothing_is_owned() -> None:
    assert metrics.max_over_mean([0, 0]) is None
    assert metrics.max_over_mean([3, 1]) == 1.5


def test_score_runs_from_all_on_one_to_even() -> None:
    assert metrics.score([12, 0, 0]) == 0
    assert metrics.score([8, 4, 0]) == 50
    assert metrics.score([4, 4, 3]) == 100


@over(loads)
def test_score_is_100_exactly_when_no_two_differ_by_more_than_one(values: list[int]) -> None:
    score = metrics.score(values)
    if values:
        assert score is not None and 0 <= score <= 100
        assert (score == 100) == (max(values) - min(values) <= 1)


def test_movement_counts_what_had_an_owner_before() -> None:
    before = {0: "a", 1: "a", 2: "a", 3: "gone"}
    after = {0: "a", 1: "b", 2: "b", 3: "b", 4: "a"}
    moved = metrics.movement(before, after, ("a", "b"), existing=5)
    assert moved == Movement(counted=4, kept=1, kept_best=3)
    assert (moved.moves, moved.avoidable_moves) == (3, 2)
    assert (moved.stickiness, moved.stickiness_best) == (0.25, 0.75)


def test_where_equal_counts_were_not_the_aim_the_best_is_unknown() -> None:
    moved = metrics.movement({0: "a", 1: "a"}, {0: "a", 1: "b"}, None, existing=2)
    assert (moved.moves, moved.stickiness) == (1, 0.5)
    assert (moved.kept_best, moved.avoidable_moves, moved.stickiness_best) == (None, None, None)


def test_stickiness_is_unknown_when_nothing_had_an_owner() -> None:
    fresh = metrics.movement({}, {0: "a"}, ("a",), existing=1)
    assert (fresh.stickiness, fresh.stickiness_best, fresh.moves) == (None, None, 0)


@over(st.dictionaries(st.integers(0, 9), st.sampled_from("abc"), max_size=10))
def test_no_balanced_assignment_keeps_more_than_the_best(before: dict[int, str]) -> None:
    """By brute force over which members get the larger quotas."""
    held = Counter(before.values())
    quotas = set(permutations((4, 3, 3)))
    best = max(sum(min(held[m], q) for m, q in zip("abc", quota, strict=True)) for quota in quotas)
    assert metrics.most_kept([held[m] for m in "abc"], 10) == best
