"""How many leave, who, and when their time is up (learners.md S1 to S5)."""

from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.coordinator.scale_down import (
    leavers_by_name,
    leavers_by_percent,
    split,
    time_is_up,
    whole_number,
)
from assignment.errors import InvalidInput
from tests.assignment.rounds import live, view

VECTORS = [
    (40, 80, 8),
    (10, 75, 2),
    (7, 50, 3),
    (3, 50, 1),
    (1, 80, 0),
    (5, 99, 0),
    (4, 100, 0),
    (40, 1, 39),
    (3, 33, 2),
]


@pytest.mark.parametrize(("members", "percent", "leave"), VECTORS)
def test_the_percentage_is_what_remains(members: int, percent: int, leave: int) -> None:
    assert split(members, percent) == (members - leave, leave)


@over(st.integers(1, 10**9), st.integers(1, 100))
def test_as_few_stay_as_make_the_percentage(members: int, percent: int) -> None:
    stay, leave = split(members, percent)
    assert stay + leave == members
    assert stay * 100 >= members * percent > (stay - 1) * 100
    assert stay >= 1


@pytest.mark.parametrize(
    ("members", "percent", "named"),
    [(5, 0, "percent 0"), (5, -3, "percent -3"), (5, 101, "percent 101"), (0, 50, "members 0")],
)
def test_other_numbers_are_refused(members: int, percent: int, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        split(members, percent)


@pytest.mark.parametrize(
    "text", ["abc", "", "50.5", "1e2", "8_0", " 80", "80%", "٨٠", "nan", "9" * 30]
)
def test_only_whole_numbers_are_numbers(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a whole number"):
        whole_number("percent", text)


@pytest.mark.parametrize(("typed", "value"), [("80", 80), ("-3", -3), (7, 7), ("007", 7)])
def test_whole_numbers_are_read(typed: Any, value: int) -> None:
    assert whole_number("percent", typed) == value


def test_those_that_own_least_leave_first() -> None:
    members = (live("a", "12"), live("b", "3"), live("c", "45"), live("d"))
    assert leavers_by_percent(view(*members), 50) == ("d", "b")


def test_of_these_the_one_with_most_of_it_covered_by_standbys() -> None:
    members = (live("a", "12", standby={"3": 0}), live("b", "34"), live("c", "5"))
    assert leavers_by_percent(view(*members), 66) == ("c",)
    assert leavers_by_percent(view(*members, live("d", "6"), partitions="123456"), 25) == (
        "c",
        "d",
        "b",
    )


def test_a_standby_on_one_that_leaves_too_covers_nothing() -> None:
    """d goes first and takes its replicas of b's partition with it, so the younger one is next."""
    members = (
        live("a", "1", joined_at_ms=9),
        live("b", "2", joined_at_ms=5),
        live("c", "3", joined_at_ms=1),
        live("d", standby={"2": 0}),
    )
    assert leavers_by_percent(view(*members, partitions="123"), 50) == ("d", "a")


def test_then_the_youngest_then_the_smallest_id() -> None:
    members = [live(m, joined_at_ms=at) for m, at in (("a", 5), ("b", 9), ("c", 5))]
    assert leavers_by_percent(view(*members), 1) == ("b", "a")


def test_who_leaves_already_is_counted_first() -> None:
    members = (live("a", "12", leaving=True), live("b"), live("c", "3"))
    assert leavers_by_percent(view(*members), 50) == ("a",)


def test_one_that_is_not_able_has_nothing_to_move() -> None:
    members = (live("a", "1", standby={"2": 0}), live("b", "234", able=False))
    assert leavers_by_percent(view(*members), 50) == ("b",)


def test_members_leave_by_name() -> None:
    group = view(live("a"), live("b"), live("c", leaving=True))
    assert leavers_by_name(group, ["b", "b"]) == ("b",)
    assert leavers_by_name(group, ["b", "a"], forced=True) == ("a", "b")


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (["x", "a", "w"], "no such member: w, x"),
        ([], "no member was named"),
        (["a", "b"], "all members would leave"),
    ],
)
def test_a_wrong_list_of_names_is_refused(names: list[str], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        leavers_by_name(view(live("a"), live("b"), live("c", leaving=True)), names)


def test_time_runs_from_the_moment_they_were_told() -> None:
    assert not time_is_up(1_000, 1_999, 1_000)
    assert time_is_up(1_000, 2_000, 1_000)
    assert time_is_up(1_000, 1_000, 0)
    assert not time_is_up(0, 10**15, None)
