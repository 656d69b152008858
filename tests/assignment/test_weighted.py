"""weighted_sticky: the least load over capacity of the most loaded member, then moves, capped."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.errors import InvalidInput
from assignment.strategies import get
from assignment.strategies.given import StrategyInput
from assignment.strategies.loads import Loads, units_of
from assignment.strategies.problem import Problem
from assignment.strategies.weighted_exact import is_small
from assignment.strategies.weighted_search import improved
from assignment.types import Member, Partition
from tests.assignment.test_strategies import numbers
from tests.builders import STREAM, given, member

Weights = list[float]
EQUAL = 1e-9


def highest(assigned: dict[str, Any], problem: StrategyInput, weights: Weights) -> float:
    loads = (
        sum(weights[p.number] for p in assigned[m.member_id]) / m.capacity for m in problem.members
    )
    return max(loads, default=0.0)


def moved(assigned: dict[str, Any], problem: StrategyInput) -> int:
    """Partitions that had an owner and have another one."""
    before = {p: m.member_id for m in problem.members for p in m.owned}
    return sum(before.get(p, m) != m for m, own in assigned.items() for p in own)


def with_owned(problem: StrategyInput, assigned: dict[str, Any]) -> StrategyInput:
    return StrategyInput(
        members=tuple(
            Member(
                member_id=m.member_id,
                capacity=m.capacity,
                owned=dict.fromkeys(assigned[m.member_id], 1),
            )
            for m in problem.members
        ),
        topics=problem.topics,
    )


@st.composite
def weighted(
    draw: st.DrawFn, members_max: int = 3, partitions_max: int = 6
) -> tuple[StrategyInput, Weights]:
    count = draw(st.integers(1, members_max))
    size = draw(st.integers(0, partitions_max))
    whole = st.integers(0, 9).map(float)
    short = st.floats(0, 9).map(lambda value: round(value, 3))
    weights = draw(st.lists(whole | short, min_size=size, max_size=size))
    owners = draw(st.lists(st.integers(-1, count - 1), min_size=size, max_size=size))
    members = (
        Member(
            member_id=f"m{i:02}",
            capacity=draw(st.sampled_from((1.0, 1.0, 2.0, 0.7))),
            owned={Partition(STREAM, n): 1 for n, owner in enumerate(owners) if owner == i},
        )
        for i in range(count)
    )
    return StrategyInput(members=tuple(members), topics={STREAM: size}), weights


# --- worked examples ------------------------------------------------------------------------------


def test_a_heavy_partition_stands_alone() -> None:
    parameters = {"weights": [9, 1, 1, 1]}
    assert numbers("weighted_sticky", given(member("a"), member("b"), flights=4), parameters) == [
        [0],
        [1, 2, 3],
    ]


def test_a_member_with_twice_the_capacity_gets_twice_the_load() -> None:
    problem = given(member("a", capacity=2.0), member("b"), flights=9)
    assert [len(own) for own in numbers("weighted_sticky", problem)] == [6, 3]


def test_what_weighs_nothing_is_spread_by_count() -> None:
    problem = given(*(member(f"m{n}") for n in range(4)), flights=40)
    got = numbers("weighted_sticky", problem, {"weights": {"0-3": 5}, "default_weight": 0})
    assert [len(own) for own in got] == [10, 10, 10, 10]


def test_nothing_moves_that_does_not_lower_the_highest_load() -> None:
    """10 stays alone whatever happens, so the rest may stay uneven."""
    problem = given(member("a", [0]), member("b", [1, 2]), member("c"), flights=3)
    got = numbers("weighted_sticky", problem, {"weights": [10, 4, 4]})
    assert got == [[0], [1, 2], []]


def test_two_partitions_swap_where_no_single_move_helps() -> None:
    problem = given(member("a", [0, 1]), member("b", [2, 3]), flights=4)
    got = numbers("weighted_sticky", problem, {"weights": [5, 4, 3, 2]})
    assert sorted(sum([5, 4, 3, 2][n] for n in own) for own in got) == [7, 7]


@pytest.mark.parametrize("weights", [{"x:0": 6, "y:0-1": 2}, {"x": [6], "y": [2, 2]}])
def test_weights_by_topic(weights: dict[str, Any]) -> None:
    problem = given(member("a"), member("b"), x=2, y=2)
    got = get("weighted_sticky", {"weights": weights})(problem)
    assert got["a"] == (Partition("x", 0),)


@pytest.mark.parametrize("equal", [{}, {"weights": {"0-11": 3.5}, "default_weight": 3.5}])
@over(st.lists(st.integers(-1, 3), min_size=12, max_size=12))
def test_with_equal_weights_and_capacities_it_is_sticky(
    equal: dict[str, Any], owners: list[int]
) -> None:
    members = [member(f"m{i}", [n for n, o in enumerate(owners) if o == i]) for i in range(4)]
    assert get("weighted_sticky", equal)(given(*members)) == get("sticky")(given(*members))


# --- how good it is -------------------------------------------------------------------------------


@over(weighted())
def test_small_problems_are_solved_by_brute_force_standards(
    case: tuple[StrategyInput, Weights],
) -> None:
    """The least highest load; of those, the fewest moves."""
    problem, weights = case
    assigned = get("weighted_sticky", {"weights": weights})(problem)
    uniform = len(set(weights)) <= 1 and len({m.capacity for m in problem.members}) <= 1
    best: list[tuple[float, int]] = []
    for owners in product(range(len(problem.members)), repeat=len(weights)):
        other = {
            m.member_id: [Partition(STREAM, n) for n, o in enumerate(owners) if o == i]
            for i, m in enumerate(problem.members)
        }
        best.append((highest(other, problem, weights), moved(other, problem)))
    least = min(high for high, _ in best)
    assert highest(assigned, problem, weights) <= least + EQUAL
    if not uniform:  # else even by count comes first, as in sticky
        fewest = min(moves for high, moves in best if high <= least * (1 + 1e-7) + EQUAL)
        assert moved(assigned, problem) <= fewest


def searched(problem: StrategyInput, weights: Weights, moves_max: int | None = None) -> Any:
    """What a large problem gets, on a small one."""
    inside = Problem.of(problem)
    loads = Loads.of(inside, units_of(np.array(weights)), [m.capacity for m in inside.members])
    return inside.dense.named(improved(loads, moves_max))


@over(weighted(members_max=6, partitions_max=25))
def test_the_search_is_near_the_lower_bound(case: tuple[StrategyInput, Weights]) -> None:
    """No member is above the mean by more than the heaviest partition on the weakest member."""
    problem, weights = case
    assigned = searched(problem, weights)
    capacities = [m.capacity for m in problem.members]
    bound = sum(weights) / sum(capacities) + max(weights, default=0) / min(capacities)
    assert highest(assigned, problem, weights) <= bound * (1 + 1e-5) + EQUAL
    assert sum(map(len, assigned.values())) == len(weights)


@over(weighted(members_max=6, partitions_max=25))
def test_the_search_settles_at_once(case: tuple[StrategyInput, Weights]) -> None:
    problem, weights = case
    assigned = searched(problem, weights)
    assert searched(with_owned(problem, assigned), weights) == assigned


@over(weighted())
def test_the_search_never_ends_worse_than_it_began(case: tuple[StrategyInput, Weights]) -> None:
    problem, weights = case
    all_owned = {m.member_id: list(m.owned) for m in problem.members}
    if sum(map(len, all_owned.values())) == len(weights):
        before = highest(all_owned, problem, weights)
        assert highest(searched(problem, weights), problem, weights) <= before + EQUAL


@over(weighted(members_max=6, partitions_max=25), st.integers(1, 4))
def test_with_a_cap_rounds_are_small_and_end(
    case: tuple[StrategyInput, Weights], moves_max: int
) -> None:
    problem, weights = case
    strategy = get("weighted_sticky", {"weights": weights, "moves_max": moves_max})
    for _ in range(60):
        assigned = strategy(problem)
        assert moved(assigned, problem) <= moves_max
        settled = with_owned(problem, assigned)
        if moved(assigned, problem) == 0 and strategy(settled) == assigned:
            break
        problem = settled
    else:
        pytest.fail("never settles")


def test_a_cap_makes_one_large_change_a_series_that_reaches_the_same_loads() -> None:
    problem = given(member("a", range(12)), member("b"), member("c"))
    capped = get("weighted_sticky", {"moves_max": 3})
    for _ in range(3):
        problem = with_owned(problem, capped(problem))
    assert [len(own) for own in capped(problem).values()] == [4, 4, 4]


def test_a_cap_never_leaves_a_partition_without_an_owner() -> None:
    got = get("weighted_sticky", {"moves_max": 1, "weights": list(range(12))})(given(member("a")))
    assert len(got["a"]) == 12


def test_the_small_and_the_large_way_are_chosen_by_size_alone() -> None:
    few = Problem.of(given(member("a"), member("b"), flights=14))
    many = Problem.of(given(member("a"), member("b"), flights=15))
    ones = [1.0, 1.0]
    assert is_small(Loads.of(few, units_of(np.ones(14)), ones))
    assert not is_small(Loads.of(many, units_of(np.ones(15)), ones))


# --- numbers that add up --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "units"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([0.1, 0.25, 0], [10, 25, 0]),
        ([], []),
        ([0.0, 0.0], [0, 0]),
        ([1 / 3, 1.0], [349525, 1048576]),
        ([1e15, 1e-15], [1048576, 1]),
    ],
)
def test_weights_become_whole_numbers(weights: list[float], units: list[int]) -> None:
    assert units_of(np.array(weights, dtype=np.float64)).tolist() == units


# --- wrong values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"weights": {"0": -1}}, "weight of 0 -1 is not within"),
        ({"weights": {"0": "much"}}, "weight of 0 is 'much', not a number"),
        ({"weights": {"x": 1}}, "weights: 'x' is not a partition"),
        ({"weights": [1, True]}, "weight is True, not a number"),
        ({"weights": [float("nan")]}, "weight nan is not within"),
        ({"weights": 3}, "weights is 3, not an object, a list or 'measured'"),
        ({"default_weight": float("inf")}, "default_weight inf is not within"),
        ({"moves_max": 0}, "moves_max 0 is not within"),
        ({"moves_max": 1.5}, "moves_max is 1.5, not a whole number"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=f"weighted_sticky: {said}"):
        get("weighted_sticky", parameters)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"weights": {"3-12": 1}}, "partitions not there: 12"),
        ({"weights": {"1-3": 1, "2": 2}}, "weights of flights:2 are given more than once"),
        ({"weights": [1] * 13}, "partitions not there: 12"),
    ],
)
def test_weights_that_do_not_fit_are_named(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        get("weighted_sticky", parameters)(given(member("a")))


@pytest.mark.parametrize("capacity", [0.0, -1.0, float("nan"), float("inf")])
def test_a_capacity_that_is_none_is_refused(capacity: float) -> None:
    with pytest.raises(InvalidInput, match=f"capacity {capacity} of 'a'"):
        get("weighted_sticky")(given(member("a", capacity=capacity)))
