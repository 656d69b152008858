"""Figures of an assignment: moves against the least there are, also where subscriptions differ."""

from itertools import product

from hypothesis import given as over
from hypothesis import strategies as st

from assignment.strategies import get
from assignment.strategies.figures import Figures, of_assignment
from assignment.strategies.given import StrategyInput
from assignment.types import Member, Partition
from tests.assignment.test_sticky import all_of, before_of, problems, readable
from tests.builders import STREAM, given, member


def figures(problem: StrategyInput, strategy: str = "sticky") -> Figures:
    return of_assignment(problem, get(strategy)(problem), before_of(problem))


def test_everything_of_a_small_group() -> None:
    problem = given(member("a", [0, 1, 2, 3]), member("b", [4, 5]), member("c"), flights=6)
    assert figures(problem, "averagely") == Figures(
        sizes={"a": 2, "b": 2, "c": 2},
        moves=4,
        least_moves=2,
        avoidable_moves=2,
        balance_degree=0.0,
        max_minus_min=0,
        max_over_mean=1.0,
        score=100.0,
        stickiness=2 / 6,
        stickiness_best=4 / 6,
    )
    assert figures(problem).avoidable_moves == 0


def test_what_is_not_known_is_none() -> None:
    empty = figures(given())
    assert (empty.moves, empty.least_moves, empty.sizes) == (0, 0, {})
    assert {empty.balance_degree, empty.score, empty.stickiness, empty.stickiness_best} == {None}
    problem = given(member("a", range(12)), member("b"))
    weighted = of_assignment(problem, get("sticky")(problem), {}, even_is_best=False)
    assert {weighted.least_moves, weighted.avoidable_moves, weighted.stickiness_best} == {None}


def test_a_gone_members_partitions_are_moves_that_cannot_be_avoided() -> None:
    problem = given(member("a", [0, 1]), member("b", [2, 3]), flights=6)
    before = before_of(problem) | {Partition(STREAM, n): "gone" for n in (4, 5)}
    found = of_assignment(problem, get("sticky")(problem), before)
    assert (found.moves, found.least_moves, found.stickiness) == (2, 2, 4 / 6)


@over(problems(members_max=3, partitions_max=3))
def test_no_most_even_assignment_moves_less(problem: StrategyInput) -> None:
    """By brute force over every assignment."""
    before, partitions = before_of(problem), all_of(problem)
    readers = [[m.member_id for m in problem.members if readable(m, p)] for p in partitions]
    owned = [p for p, names in zip(partitions, readers, strict=True) if names]
    best: list[tuple[int, int]] = []
    for owners in product(*(names for names in readers if names)):
        loads = [sum(o == m.member_id for o in owners) ** 2 for m in problem.members]
        moves = sum(before.get(p, o) != o for p, o in zip(owned, owners, strict=True))
        best.append((sum(loads), moves))
    lost = sum(p not in owned for p in before)  # nobody reads them any more
    assert figures(problem).least_moves == min(best)[1] + lost


@over(st.lists(st.sampled_from("abcd"), max_size=12))
def test_whatever_a_strategy_does_its_moves_are_at_least_the_least(owners: list[str]) -> None:
    members = tuple(
        Member(
            member_id=m,
            owned={Partition(STREAM, n): 1 for n, o in enumerate(owners) if o == m},
        )
        for m in "abc"
    )
    problem = StrategyInput(members=members, topics={STREAM: len(owners)})
    before = {Partition(STREAM, n): o for n, o in enumerate(owners)}
    for name in ("averagely", "circle", "range", "round_robin", "join_order", "sticky"):
        found = of_assignment(problem, get(name)(problem), before)
        assert found.least_moves is not None
        assert found.avoidable_moves == found.moves - found.least_moves >= 0
        assert found.max_minus_min is not None and found.max_minus_min <= 1
