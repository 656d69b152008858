"""What is read to draw ownership over time: all that can be seen, and no more than fits."""

import random
from itertools import pairwise

import numpy as np
import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from assignment import maps
from assignment.columns import NOBODY
from assignment.types import Partition, TargetRow
from dashboard.models import Group, HistoryGap, MemberRecord, Rebalance, Tenure
from dashboard.pages import pixels
from dashboard.pages.pixels import Frame, Runs
from dashboard.records.queries import intervals, marks, tenures
from dashboard.records.queries.intervals import NO_HUE, STAYS, Intervals, Shown
from dashboard.records.queries.pages import Filters

pytestmark = pytest.mark.django_db
HUES = {"a": 0, "b": 1, "c": 2}


@pytest.fixture
def group() -> Group:
    return Group.objects.create(name="g", stream="s", partitions=12, settings={})


def held(
    group: Group, number: int, fence: int, start: int, end: int | None, *, member: str = "a"
) -> Tenure:
    return Tenure(
        group=group, number=number, partition=f"s:{number}", fence=fence, member_id=member,
        started_ms=start, ended_ms=end,
    )  # fmt: skip


def filled(group: Group, seed: int, count: int = 20, top: int = 10_000) -> None:
    """Each partition changes hands at random moments, with gaps and some overlaps."""
    chance = random.Random(seed)
    for number in range(group.partitions):
        times = sorted(chance.sample(range(top), count))
        Tenure.objects.bulk_create(
            held(group, number, fence, start, end + chance.choice([-1, 0, 0, 30]), member=member)
            for fence, (start, end) in enumerate(pairwise(times), 1)
            if (member := chance.choice("abcd")) != "d" or chance.random() < 0.5
        )


def shown(from_ms: int = 0, to_ms: int = 10_000, **more: int) -> Shown:
    return Shown(**{"from_ms": from_ms, "to_ms": to_ms, "first": 0, "last": 11, "lines": 12} | more)


def painted(found: Intervals, asked: Shown) -> Runs:
    frame = Frame(from_ms=asked.from_ms, to_ms=asked.to_ms, until_ms=asked.to_ms, width=100)
    return pixels.runs(frame, found)


@pytest.mark.parametrize("seed", range(5))
def test_the_picture_of_a_part_is_that_part_of_the_picture_of_all(
    group: Group, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(group, seed)
    chance = random.Random(seed)
    for _ in range(10):
        from_ms, to_ms = sorted(chance.sample(range(10_000), 2))
        asked = shown(from_ms, to_ms)
        made = painted(intervals.of_partitions(group, asked, HUES), asked)
        with monkeypatch.context() as patch:
            patch.setattr(intervals, "BEFORE", 1_000)
            every = painted(intervals.of_partitions(group, asked, HUES), asked)
        assert made.ends.tolist() == every.ends.tolist(), seed
        assert made.codes.tolist() == every.codes.tolist(), seed


def test_columns_are_in_the_order_of_line_start_and_fence(group: Group) -> None:
    Tenure.objects.bulk_create(
        [
            held(group, 3, 2, 500, None, member="b"),
            held(group, 3, 1, 100, 500, member="z"),
            held(group, 1, 1, 50, 60, member="c"),
        ]
    )
    found = intervals.of_partitions(group, shown(0, 1_000, first=1, last=3), HUES)
    assert found.numbers == range(1, 4)
    assert found.line.tolist() == [0, 2, 2]
    assert found.started_ms.tolist() == [50, 100, 500]
    assert found.ended_ms.tolist() == [60, 500, 1_000]
    assert found.hue.tolist() == [2, NO_HUE, 1]


def test_of_more_partitions_than_lines_every_kth_is_read(
    group: Group, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    filled(group, 1)
    with django_assert_num_queries(2):
        found = intervals.of_partitions(group, shown(lines=5), HUES)
    assert [*found.numbers] == [0, 3, 6, 9]
    assert {*found.line.tolist()} == {0, 1, 2, 3}


def test_history_before_the_time_shown_is_not_read(group: Group) -> None:
    Tenure.objects.bulk_create(held(group, 0, n, n * 10, n * 10 + 10) for n in range(1, 500))
    found = intervals.of_partitions(group, shown(4_000, 4_100), HUES)
    assert found.started_ms.tolist()[:4] == [3_970, 3_980, 3_990, 4_000]
    assert found.started_ms.size == intervals.BEFORE + 10


def test_there_is_a_bound_to_what_is_read(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(group, 2)
    monkeypatch.setattr(intervals, "INTERVALS_MAX", 60)
    found = intervals.of_partitions(group, shown(), HUES)
    assert 0 < found.line.size <= 60
    assert 1 < len(found.numbers) < 12
    assert found.from_ms == 0


def test_of_one_partition_the_newest_are_read(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tenure.objects.bulk_create(held(group, 0, n, n * 10, n * 10 + 10) for n in range(1, 500))
    monkeypatch.setattr(intervals, "INTERVALS_MAX", 60)
    asked = shown(first=0, last=0)
    found = intervals.of_partitions(group, asked, HUES)
    assert found.line.size <= 60
    assert found.started_ms.max() == 4_990
    assert found.from_ms == found.started_ms.min() + 10 * intervals.BEFORE
    codes = painted(found, asked).codes.tolist()
    assert codes[0] == pixels.NOTHING, "what was not read is no gap"


def test_of_a_member_there_are_its_stays_and_what_it_had(group: Group) -> None:
    filled(group, 3)
    MemberRecord.objects.create(group=group, member_id="a", joined_at_ms=5, left_at_ms=900)
    MemberRecord.objects.create(group=group, member_id="a", joined_at_ms=1_000)
    found = intervals.of_member(group, "a", shown(100, 2_000), HUES)
    rows = Tenure.objects.filter(member_id="a", started_ms__lt=2_000, ended_ms__gte=100)
    assert [*found.numbers] == [STAYS, *sorted({row.number for row in rows})]
    assert found.line.size == 2 + rows.count()
    assert found.started_ms[found.line == 0].tolist() == [5, 1_000]
    assert found.ended_ms[found.line == 0].tolist() == [900, 2_000]


# --- replicas ---


def target(group: Group, epoch: int, at_ms: int, cause: str = "join", **rows: TargetRow) -> None:
    owners = maps.pack_owners((), np.full(group.partitions, NOBODY))
    Rebalance.objects.create(
        group=group, target_epoch=epoch, at_ms=at_ms, cause=cause, strategy="sticky", members=2,
        partitions=12, kept=0, moved=0, target=owners, previous=owners,
        replicas=maps.pack_replicas(rows) if rows else None,
    )  # fmt: skip


def row(standby: str = "", learning: str = "") -> TargetRow:
    standbys, learners = (
        frozenset(Partition("s", int(n)) for n in text.split()) for text in (standby, learning)
    )
    return TargetRow(target_epoch=1, standby=standbys, learning=learners)


def spells(found: Intervals) -> set[tuple[int, int, int, int]]:
    columns = (found.line, found.started_ms, found.ended_ms, found.hue)
    return {*zip(*(column.tolist() for column in columns), strict=True)}


def test_replicas_last_from_target_to_target(group: Group) -> None:
    target(group, 1, 50, b=row(standby="0"))  # was over before the time that is shown
    target(group, 2, 100, a=row(standby="0 1"), b=row(learning="0"))
    target(group, 3, 200, a=row(standby="0"), b=row(standby="1", learning="2"))
    target(group, 4, 300)
    found = intervals.replicas(group, shown(150, 400), [0, 1, 2], HUES)
    assert spells(found["standby"]) == {(0, 100, 300, 0), (1, 100, 200, 0), (1, 200, 300, 1)}
    assert spells(found["learning"]) == {(0, 100, 200, 1), (2, 200, 300, 1)}


def test_who_keeps_a_partition_at_a_moment(group: Group) -> None:
    assert intervals.replicas_at(group, 10, [1]) == {"learning": {1: []}, "standby": {1: []}}
    target(group, 1, 100, a=row(standby="0 1"), b=row(standby="1", learning="0"))
    assert intervals.replicas_at(group, 100, [1])["standby"] == {1: ["a", "b"]}
    assert intervals.replicas_at(group, 500, range(1)) == {
        "learning": {0: ["b"]},
        "standby": {0: ["a"]},
    }


def test_history_begins_with_the_first_of_what_is_drawn(group: Group) -> None:
    assert intervals.begun_ms(group) is None
    MemberRecord.objects.create(group=group, member_id="a", joined_at_ms=900)
    assert intervals.begun_ms(group) == 900
    target(group, 1, 800)
    target(group, 2, 850)
    assert intervals.begun_ms(group) == 800
    held(group, 0, 1, 700, None).save()
    assert intervals.begun_ms(group) == 700


# --- marks ---


def test_what_happened_is_marked(group: Group) -> None:
    target(group, 1, 500, cause="join")
    target(group, 2, 6_000, cause="member lost")
    target(group, 3, 20_000)
    MemberRecord.objects.create(
        group=group, member_id="b", joined_at_ms=1, left_at_ms=5_990, end="lost"
    )
    MemberRecord.objects.create(
        group=group, member_id="c", joined_at_ms=1, left_at_ms=5_990, end="left"
    )
    HistoryGap.objects.create(group=group, at_ms=7_000, events_lost=3)
    HistoryGap.objects.create(group=group, at_ms=7_500, events_lost=0, records_lost=1)
    found = marks.marks(group, 0, 10_000)
    assert [(mark.kind, mark.at_ms, mark.what, mark.epoch) for mark in found] == [
        ("rebalance", 500, "join", (0, 1)),
        ("lost", 5_990, "b", None),
        ("rebalance", 6_000, "member lost", (0, 2)),
        ("gap", 7_000, "3", None),
    ]


def test_marks_that_are_too_close_are_one_with_their_number(group: Group) -> None:
    for epoch in range(1, 40):
        target(group, epoch, 5_000 + epoch, cause=f"cause {epoch}")
    (mark,) = marks.marks(group, 0, 10**6)
    assert (mark.count, mark.what, mark.at_ms) == (39, "cause 39", 5_039)
    assert len(marks.marks(group, 5_000, 5_100)) == 39


def test_only_first_rounds_are_marked(group: Group) -> None:
    target(group, 1, 500)
    target(group, 2, 6_000)
    first, second = group.rebalances.order_by("target_epoch")
    second.first = first
    second.save()
    assert [mark.at_ms for mark in marks.marks(group, 0, 10_000)] == [500]


def test_nothing_is_nothing(group: Group) -> None:
    found = intervals.of_partitions(group, shown(), HUES)
    assert found.line.size == 0
    assert np.all(painted(found, shown()).codes == pixels.NOTHING)
    assert intervals.begun_ms(group) is None


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("from_ms", [None, 0, 4_000, 9_000, 20_000])
def test_a_partitions_table_is_its_part_of_the_whole_table(
    group: Group, from_ms: int | None
) -> None:
    filled(group, seed=7)
    Tenure.objects.bulk_create([held(group, 3, 99, 8_500, None)])
    asked = {"from_ms": from_ms, "to_ms": 9_500}
    every = [row for row in tenures.found(group, Filters(**asked)) if row.number == 3]
    assert list(tenures.found(group, Filters(**asked, partition=3))) == every
    assert list(tenures.found(group, Filters(**asked, first=3, last=3))) == every
    assert every


@pytest.mark.parametrize("from_ms", [None, 9_000])
def test_a_partitions_table_looks_through_no_more_than_the_time_asked_for(
    group: Group, from_ms: int | None
) -> None:
    filled(group, seed=7)
    for of_one in ({"partition": 3}, {"first": 3, "last": 3}):
        plan = tenures.found(group, Filters(from_ms=from_ms, **of_one)).explain()
        assert connection.vendor != "sqlite" or "number=? AND started_ms>?" in plan, plan
