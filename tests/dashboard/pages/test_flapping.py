"""Owners that go back and forth, members that come and go: named, and nothing else is flapping."""

import pytest
from django.test import Client

from dashboard import coordinator
from dashboard.live import watching
from dashboard.live.attention import DEFAULTS
from dashboard.models import Group, MemberRecord, Tenure
from dashboard.push import frames
from dashboard.records.queries import flapping, groups
from dashboard.records.queries.flapping import WINDOW_MS, Rejoined, Returned, returns
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scenes import settle, staffed

NOW_MS = 1_900_000_000_000
MIN = 60_000
JOINS_MIN = DEFAULTS["flapping_joins"]


@pytest.fixture
def quiet(group: Group) -> Group:
    """Of four partitions; nothing was ever owned."""
    return group


def owned(group: Group, number: int, *spans: tuple[str, int, int | None]) -> None:
    """(member, from, to), in minutes before now; a fence each."""
    fence = Tenure.objects.count()
    for k, (member, began, ended) in enumerate(spans):
        Tenure.objects.create(
            group=group,
            number=number,
            partition=f"{group.stream}:{number}",
            member_id=member,
            fence=fence + k + 1,
            started_ms=NOW_MS - began * MIN,
            ended_ms=None if ended is None else NOW_MS - ended * MIN,
        )


def joined(group: Group, member: str, *minutes_ago: int) -> None:
    for ago in minutes_ago:
        MemberRecord.objects.create(group=group, member_id=member, joined_at_ms=NOW_MS - ago * MIN)


def test_a_partition_that_goes_back_and_forth_is_named(quiet: Group) -> None:
    owned(quiet, 3, ("m1", 60, 5), ("m2", 5, 1), ("m1", 1, None))
    owned(quiet, 2, ("m1", 60, 5), ("m2", 5, None))
    assert flapping.why(quiet, NOW_MS) == (
        f"partition {quiet.stream}:3 went m1 → m2 → m1 within 4 min"
    )


def test_the_worst_is_named_and_the_others_are_counted(quiet: Group) -> None:
    for number in (1, 2, 3):
        owned(quiet, number, ("m1", 9, 5), ("m2", 5, 4), ("m1", 4, 3 if number == 2 else None))
    owned(quiet, 2, ("m2", 3, None))
    assert flapping.why(quiet, NOW_MS) == (
        f"partition {quiet.stream}:2 went m2 → m1 → m2 within 1 min, 2 times in 10 min"
        " (and 2 more partitions)"
    )


@pytest.mark.parametrize(
    "spans",
    [
        [("m1", 9, 6), ("m2", 6, 3), ("m3", 3, None)],
        [("m1", 9, 6), ("m1", 6, 3), ("m1", 3, None)],
        [("m1", 60, 30), ("m2", 30, 11), ("m1", 11, None)],
        [("m1", 60, 15), ("m2", 15, 1), ("m1", 1, None)],
    ],
    ids=["on and on", "one owner", "long ago", "a slow return"],
)
def test_what_is_no_going_back(quiet: Group, spans: list[tuple[str, int, int | None]]) -> None:
    owned(quiet, 0, *spans)
    assert flapping.why(quiet, NOW_MS) == ""


def test_an_owner_that_came_back_under_a_new_fence_in_between_still_came_back() -> None:
    tenures = [(7, "m1", 0), (7, "m2", 10), (7, "m2", 20), (7, "m1", 50), (8, "m2", 60)]
    assert list(returns(tenures)) == [
        Returned(number=7, owner="m1", other="m2", took_ms=40, times=1)
    ]


def test_a_member_that_comes_and_goes_is_named(quiet: Group) -> None:
    joined(quiet, "m2", 9, 6, 3, 1)
    joined(quiet, "m1", 9, 5)
    joined(quiet, "m3", 40, 30, 20, 5)
    assert flapping.rejoined(quiet, NOW_MS, JOINS_MIN) == [Rejoined(member_id="m2", joins=4)]
    assert flapping.why(quiet, NOW_MS) == "member m2 joined 4 times in 10 min"


def test_many_members_that_start_do_not_flap(quiet: Group) -> None:
    for number in range(JOINS_MIN * 3):
        joined(quiet, f"m{number}", 1)
    assert flapping.why(quiet, NOW_MS) == ""


def may_flap(group: Group) -> bool:
    return group.pk in flapping.may_flap([group], NOW_MS, JOINS_MIN)


def test_a_group_in_which_all_is_new_is_not_asked_for_more(quiet: Group) -> None:
    for number in range(JOINS_MIN * 3):
        joined(quiet, f"m{number}", 1)
        owned(quiet, number, (f"m{number}", 1, None))
    joined(quiet, "m0", 5)
    assert not may_flap(quiet)


@pytest.mark.parametrize("most", [flapping.ROWS_MAX, 2])
def test_a_group_that_flaps_is_among_those_that_may(
    quiet: Group, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(flapping, "ROWS_MAX", most)
    joined(quiet, "m2", *range(1, JOINS_MIN + 1))
    assert may_flap(quiet)
    MemberRecord.objects.all().delete()
    owned(quiet, 3, ("m1", 60, 5), ("m2", 5, 1), ("m1", 1, None))
    assert may_flap(quiet)


def test_both_are_said(quiet: Group) -> None:
    owned(quiet, 0, ("m1", 9, 5), ("m2", 5, 4), ("m1", 4, None))
    joined(quiet, "m2", *range(1, JOINS_MIN + 1))
    partition, member = flapping.why(quiet, NOW_MS).split("; ")
    assert partition.startswith("partition") and member.startswith("member m2")
    assert flapping.why(quiet, NOW_MS + WINDOW_MS) == ""


def test_the_overview_says_why(visitor: Client, group: Group) -> None:
    """b comes and goes, and with it half of the partitions."""
    agents = staffed(group, "a")
    for _ in range(JOINS_MIN):
        b = FakeAgent(group, "b")
        b.start()
        settle(group, [*agents, b])
        b.leave()
        settle(group, agents)
    coordinator.sample()
    last = group.rebalances.first()
    assert last is not None
    (row,) = groups.rows(last.at_ms)
    assert row.state == "flapping"
    assert " went a → b → a within " in row.why and "; member b joined 3 times in 10 min" in row.why
    page = visitor.get("/").content.decode()
    assert "member b joined 3 times in 10 min" in page
    state, why = frames.state_of(watching.snapshot(group.name))
    assert (state, why) == (row.state, row.why), "the header of its pages says the same"


def test_queries_are_few_however_many_partitions(
    quiet: Group, django_assert_num_queries: object
) -> None:
    for number in range(4):
        owned(quiet, number, ("m1", 9, 5), ("m2", 5, 4), ("m1", 4, None))
    with django_assert_num_queries(3):  # type: ignore[operator]
        flapping.why(quiet, NOW_MS)
