"""Whose turn it is, on a real Redis."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from assignment.scripts.group_read import TICKER_AWAY_MS
from assignment.wire import StreamKeys
from dashboard import coordinator
from dashboard.coordinator import rota, sampling, trimming
from dashboard.coordinator.rota import Rota, Work
from dashboard.live import queue, turns
from dashboard.models import Group, Sample
from dashboard.records.queries import groups as group_queries
from tests.dashboard.agents import FakeAgent, make_group, tick, until

WORK = Work(
    name="tests", period_ms=100, quiet_ms=10_000, share_s=1.0, late_ms=500, late_share_s=2.0
)


class Clock:
    """Of a run: each part takes `part_s`."""

    def __init__(self) -> None:
        self.now_s, self.part_s = 0.0, 0.0

    def monotonic(self) -> float:
        self.now_s += self.part_s
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    found = Clock()
    monkeypatch.setattr(rota, "monotonic", found.monotonic)
    return found


def turn(
    now_ms: int,
    names: list[str],
    quiet: Mapping[str, int] | None = None,
    takes_s: Mapping[str, float] = MappingProxyType({}),
    size: int = 1,
) -> list[str]:
    one = Rota(work=WORK, now_ms=now_ms, names=names, quiet=quiet or {})
    found = []
    for part in one.parts(size):
        found += part
        for name in part:
            one.took(name, takes_s.get(name, 0.0), is_quiet=name in one.quiet)
    return found


def test_each_has_its_turn_after_its_period(store: Any) -> None:
    assert turn(1_000, ["a", "b"]) == ["a", "b"]
    assert turn(1_050, ["a", "b", "c"]) == ["c"]
    assert turn(1_095, ["a", "b", "c"]) == ["a", "b"], "a run may come a little early"
    assert turn(1_150, ["a", "b", "c"]) == ["c"]


def test_where_nothing_goes_on_turns_are_rare_until_something_does(store: Any) -> None:
    assert turn(1_000, ["a", "b"], {"a": 900}) == ["b", "a"]
    assert turn(1_200, ["a", "b"], {"a": 900}) == ["b"]
    assert turn(1_300, ["a", "b"], {"a": 1_250}) == ["b", "a"], "somebody looked since"
    assert turn(1_400, ["a", "b"], {}) == ["a", "b"], "somebody is there"


def test_where_there_was_nothing_to_do_the_next_turn_is_some_periods_later(store: Any) -> None:
    work = replace(WORK, idle_periods=3)

    def run(now_ms: int, quiet: Mapping[str, int], *, idle: bool) -> list[str]:
        one = Rota(work=work, now_ms=now_ms, names=["a"], quiet=quiet)
        found = []
        for (name,) in one.parts(1):
            one.took(name, is_quiet=name in quiet, was_idle=idle)
            found.append(name)
        return found

    assert run(1_000, {}, idle=True) == ["a"]
    assert run(1_200, {}, idle=True) == []
    assert run(1_300, {}, idle=False) == ["a"]
    assert run(1_400, {"a": 1_350}, idle=True) == ["a"], "it had something to do"
    assert run(1_650, {}, idle=True) == [], "it was quiet, and had nothing to do"
    assert run(1_700, {}, idle=True) == ["a"], "and is not quiet any more"


def test_a_run_has_its_share_and_the_longest_due_come_first(store: Any, clock: Clock) -> None:
    clock.part_s = 0.6
    assert turn(1_000, ["a", "b", "c", "d"]) == ["a", "b"]
    clock.now_s = 0.0
    assert turn(1_300, ["a", "b", "c", "d"]) == ["c", "d"]


def test_what_is_late_is_given_more_time(store: Any, clock: Clock) -> None:
    names = ["a", "b", "c", "d", "e"]
    assert turn(1_000, names) == names
    clock.part_s = 0.6
    assert turn(1_100 + WORK.late_ms, names) == ["a", "b", "c", "d"]


def test_those_where_nothing_goes_on_are_never_passed_over_for_ever(
    store: Any, clock: Clock
) -> None:
    clock.part_s = 2.0
    assert turn(1_000, ["a", "b", "c", "d"], {"c": 1, "d": 1}) == ["a", "c"]
    clock.now_s = 0.0
    assert turn(1_010, ["a", "b", "c", "d"], {"c": 1, "d": 1}) == ["b", "d"]


def test_who_takes_more_than_a_share_has_its_turn_less_often_and_after_the_others(
    store: Any,
) -> None:
    takes_s = {"a": 3.0, "b": 0.5, "c": 100.0}
    assert turn(1_000, ["a", "b", "c"], takes_s=takes_s) == ["a", "b", "c"]
    assert turn(1_200, ["a", "b", "c"], takes_s=takes_s) == ["b"]
    assert turn(1_300, ["a", "b", "c"], takes_s=takes_s) == ["b", "a"]
    assert turn(1_500, ["a", "b", "c"], takes_s=takes_s) == ["b"]
    late_ms = 1_000 + WORK.period_ms + WORK.late_ms
    assert turn(late_ms, ["a", "b", "c"]) == ["b", "a", "c"]
    assert turn(late_ms + 100, ["a", "b", "c"]) == ["a", "b", "c"], "they take long no more"


def test_one_process_at_a_time_has_a_run(store: Any) -> None:
    one = Rota(work=WORK, now_ms=1_000, names=["a", "b"], quiet={})
    parts = one.parts(1)
    assert next(parts) == ["a"]
    assert turn(1_000, ["a", "b"]) == []
    assert list(parts) == [["b"]]
    assert turn(1_000, ["a", "b"]) == ["a", "b"], "nobody said that those were done"


def test_a_clock_that_was_set_back_delays_nobody(store: Any) -> None:
    assert turn(9_000_000, ["a"]) == ["a"]
    assert turn(1_000, ["a"]) == ["a"]


def test_who_is_gone_is_forgotten_and_what_cannot_be_read_is_as_nothing(store: Any) -> None:
    turn(1_000, ["a", "b"])
    turns.keep("tests", {}, [])
    store.hset(turns._key("tests"), "b", "soon")
    assert turn(1_010, ["b"]) == ["b"]
    assert turns.turns("tests").keys() == {"b"}


def test_of_many_groups_each_is_sampled_before_its_sample_is_too_old_to_be_shown() -> None:
    work = sampling.SAMPLES
    assert work.period_ms + work.late_ms + work.period_ms < group_queries.FRESH_MS


@pytest.mark.django_db
def test_a_group_without_members_is_sampled_rarely_and_known_all_the_same(
    group: Group, store: Any
) -> None:
    until(lambda: not tick())
    assert coordinator.sample_due() == 1
    assert coordinator.sample_due() == 0
    [row] = Sample.objects.all()
    done = turns.turns("samples")[group.name]
    assert done.due_ms - done.done_ms >= group_queries.QUIET_MS / 2
    later_ms = row.at_ms + 2 * group_queries.FRESH_MS
    assert [one.sample for one in group_queries.rows(later_ms)] == [row]
    Sample.objects.update(members=1)
    assert [one.sample for one in group_queries.rows(later_ms)] == [None]


@pytest.mark.django_db
def test_the_first_member_is_seen_at_the_next_turn(
    group: Group, agent: FakeAgent, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: not tick())
    assert coordinator.sample_due() == 1
    agent.start()
    tick()
    work = sampling.SAMPLES
    soon = Work(**{**{n: getattr(work, n) for n in Work.__slots__}, "period_ms": 0})
    monkeypatch.setattr(sampling, "SAMPLES", soon)
    assert coordinator.sample_due() == 1
    assert [row.members for row in Sample.objects.order_by("at_ms")] == [0, 1]


@pytest.mark.django_db
def test_who_ticked_last_is_asked_twice_a_second_for_all_groups(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        FakeAgent(make_group(f"{group_name}-{number}"), "m1").start()
    asked, last, now_s = list[int](), queue.last_ticker, iter((0.0, 0.3, 0.6))
    monkeypatch.setattr(queue, "last_ticker", lambda: asked.append(1) or last())
    monkeypatch.setattr(queue, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    assert coordinator.sample() == 3
    assert len(asked) == 2
    assert all(0 <= row.tick_age_ms < TICKER_AWAY_MS for row in Sample.objects.all())


@pytest.mark.django_db
def test_what_may_need_attention_soon_is_sampled_as_often_as_ever(group: Group, store: Any) -> None:
    store.xadd(StreamKeys(group.stream).entries(0), {"batch": "x"})
    events = {":events": 5_000, ":entries": 1}
    store.hset(StreamKeys(group.stream).producers(0), mapping=events)
    until(lambda: not tick())
    assert coordinator.sample_due() == 1
    done = turns.turns("samples")[group.name]
    assert done.due_ms - done.done_ms == sampling.SAMPLES.period_ms
    assert group.occurrences.get().rule == "lagging"


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["_row", "_row_of_empty"])
def test_a_group_that_cannot_be_sampled_is_not_the_others_trouble(
    group: Group, store: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    other = make_group(f"{group.name}-other")
    if kind == "_row":
        for one in (group, other):
            FakeAgent(one, "a").start()
    row_of = getattr(sampling, kind)

    def broken(one: Group, *more: Any) -> Sample:
        if one == group:
            raise ZeroDivisionError
        return row_of(one, *more)

    monkeypatch.setattr(sampling, kind, broken)
    tick()
    assert coordinator.sample_due() == 1
    assert [row.group for row in Sample.objects.all()] == [other]


@pytest.mark.django_db
def test_streams_that_nobody_reads_have_rare_turns(group: Group, store: Any) -> None:
    until(lambda: not tick())
    assert coordinator.trim_due() == 0
    turn_of = turns.turns("trims")[group.stream]
    assert turn_of.due_ms - turn_of.done_ms >= trimming.TRIMS.quiet_ms / 2


@pytest.mark.django_db
def test_streams_of_which_nothing_could_be_dropped_have_every_third_turn(
    group: Group, store: Any
) -> None:
    FakeAgent(group, "a").start()
    tick()
    assert coordinator.trim_due() == 0
    turn_of = turns.turns("trims")[group.stream]
    assert turn_of.due_ms - turn_of.done_ms == 3 * trimming.TRIMS.period_ms
