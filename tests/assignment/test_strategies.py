"""The registry, bad input, and `averagely`."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.errors import InvalidInput
from assignment.strategies import NAMES, StrategyInput, get
from assignment.types import Member, Partition
from tests.builders import given, member


def numbers(strategy: str, problem: StrategyInput) -> list[list[int]]:
    return [[p.number for p in own] for own in get(strategy)(problem).values()]


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="'fair' is not known; known are averagely, sticky"):
        get("fair")


@pytest.mark.parametrize("name", NAMES)
def test_without_members_nothing_is_assigned(name: str) -> None:
    assert get(name)(given()) == {}


@pytest.mark.parametrize("name", NAMES)
def test_without_partitions_everybody_idles(name: str) -> None:
    assert get(name)(given(member("a"), member("b"), flights=0)) == {"a": (), "b": ()}


def test_a_duplicate_member_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="'a' is there twice"):
        given(member("a"), member("b"), member("a"))


def test_an_empty_member_id_is_refused() -> None:
    with pytest.raises(InvalidInput, match="member id is empty"):
        given(member(""))


@pytest.mark.parametrize("count", [-1, 2.0, "2", True, None])
def test_a_partition_count_that_is_none_is_refused_by_value(count: object) -> None:
    with pytest.raises(InvalidInput, match=repr(count)):
        StrategyInput(members=(), topics={"x": count})  # type: ignore[dict-item]


def test_averagely_gives_contiguous_blocks() -> None:
    assert numbers("averagely", given(member("b"), member("a"), member("c"), flights=8)) == [
        [0, 1, 2],
        [3, 4, 5],
        [6, 7],
    ]
    four = given(*(member(m) for m in "abcd"), flights=2)
    assert numbers("averagely", four) == [[0], [1], [], []]


def test_averagely_starts_anew_for_each_topic_and_its_readers() -> None:
    problem = given(member("a", reads=("x",)), member("b", reads=("x", "y")), x=3, y=1)
    assert get("averagely")(problem) == {
        "a": (Partition("x", 0), Partition("x", 1)),
        "b": (Partition("x", 2), Partition("y", 0)),
    }


def test_averagely_refuses_a_topic_that_is_not_there() -> None:
    with pytest.raises(InvalidInput, match="'a' subscribes to unknown 'y'"):
        get("averagely")(given(member("a", reads=("y",)), x=1))


@over(st.integers(0, 40), st.integers(0, 12), st.randoms(use_true_random=False))
def test_averagely_depends_on_nothing_but_the_ids(
    count: int, partitions: int, random: Random
) -> None:
    ids = [f"m{n:02}" for n in range(count)]
    shuffled = random.sample(ids, count)
    owned = {Partition("flights", n): n for n in range(partitions)}
    members = [Member(member_id=m, owned=owned) for m in shuffled]
    assigned = get("averagely")(given(*members, flights=partitions))
    sizes = Counter(len(own) for own in assigned.values())
    assert assigned == get("averagely")(given(*map(member, ids), flights=partitions))
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert [p.number for own in assigned.values() for p in own] == list(
        range(partitions if count else 0)
    )
