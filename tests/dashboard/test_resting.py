"""Ticks look at groups that have something to do, on a real Redis and a real database."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
from django.db import OperationalError

from assignment import sizes
from assignment.coordinator import effects
from assignment.coordinator import tick as rules
from assignment.scripts import agent_side
from assignment.scripts.group_read import TICKER_AWAY_MS, Purpose
from assignment.types import Claim
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.coordinator import at_rest, carrying, resting
from dashboard.coordinator import rows as group_rows
from dashboard.coordinator.carrying import Here, perform
from dashboard.coordinator.running import Line, Round, Said
from dashboard.live import glances, health, queue, watching
from dashboard.live import groups as live_groups
from dashboard.live import rests as live_rests
from dashboard.live.scripts import run
from dashboard.models import Group, Plan, PlanKind, PlanState
from tests.dashboard.agents import FakeAgent, make_group, tick, until

pytestmark = pytest.mark.django_db
NEVER_MS, LONG_MS = 10**9, 600_000


@pytest.fixture(autouse=True)
def nobody_is_looked_at_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UNASKED_LEAST_MS", "UNASKED_MOST_MS"):
        monkeypatch.setattr(resting, name, NEVER_MS)


@pytest.fixture
def settled(store: Any, group_name: str) -> FakeAgent:
    """The group rests; its only member owns all of it, however slow this test is."""
    group = make_group(group_name, lease_ms=LONG_MS, session_timeout_ms=LONG_MS)
    agent = FakeAgent(group, "a")
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    rests()
    return agent


def rests() -> None:
    until(lambda: not tick())


def test_a_group_in_which_nothing_happens_is_not_looked_at(settled: FakeAgent, store: Any) -> None:
    before = store.hget(GroupKeys(settled.group.name).meta, "tick_ms")
    settled.beat()
    assert tick() == 0
    assert store.hget(GroupKeys(settled.group.name).meta, "tick_ms") == before


def test_that_nobody_looked_at_it_is_no_time_without_a_coordinator(
    settled: FakeAgent, store: Any
) -> None:
    """Whoever ticks lives, and would have looked at the group."""
    group = settled.group.name
    store.hincrby(GroupKeys(group).meta, "tick_ms", -60_000)
    store.hset(queue._ticker(), "until_ms", 0)  # since then somebody ticked all the time
    assert tick() == 0
    assert watching.snapshot(group).tick_age_ms < TICKER_AWAY_MS
    view = live_groups.read(group, Purpose.REBALANCE)
    assert view.now_ms - view.meta.tick_ms < TICKER_AWAY_MS


def as_another(group: Group) -> None:
    Group.objects.filter(pk=group.pk).update(settings=group.settings | {"grace_ms": 5_000})


def as_paused(group: Group) -> None:
    Group.objects.filter(pk=group.pk).update(pause_version=1, pauses={"*": PAUSE})


def with_a_plan(group: Group) -> None:
    Plan.objects.create(
        group=group, kind=PlanKind.REBALANCE, state=PlanState.PROPOSED, packed=b"", digest="",
        proposed_by="ann", proposed_at_ms=1, source="page", expires_at_ms=2, needs_approval=False,
    )  # fmt: skip


def with_a_running_plan(group: Group) -> None:
    with_a_plan(group)
    group.plans.update(state=PlanState.RUNNING, expires_at_ms=2**50)


def with_a_request(group: Group) -> None:
    group.requests.create(actor="ann", strategy="averagely")


def with_a_scale_down(group: Group) -> None:
    group.scale_downs.create(
        asked_at_ms=1, actor="ann", source="page", live=1, members={"a": LEAVER}
    )


PAUSE = {"by": "ann", "at_ms": 1, "why": ""}
LEAVER = {"outcome": "", "at_ms": None, "forced": False}


@pytest.mark.parametrize(
    "happens",
    [as_another, as_paused, with_a_plan, with_a_running_plan, with_a_request, with_a_scale_down],
)
def test_what_only_the_database_knows_wakes_a_group(
    settled: FakeAgent, happens: Callable[[Group], None]
) -> None:
    happens(settled.group)
    assert tick() == 1


def test_of_one_group_that_is_looked_at_apart_only_its_own_request_counts(
    settled: FakeAgent, group_name: str
) -> None:
    other = make_group(f"{group_name}-b")
    with_a_request(other)
    assert not resting.awake_one(settled.group.name, queue.ticker_lives().ticker)
    (one,) = resting.awake_one(other.name, queue.ticker_lives().ticker)
    assert one.is_asked


def test_a_member_joins_a_group_that_rests(settled: FakeAgent) -> None:
    other = FakeAgent(settled.group, "b")
    other.start()
    assert tick() == 1
    coordinator.rebalance(settled.group.name)
    settled.follow()
    other.follow()
    assert len(other.held) == 2
    rests()


def test_a_group_that_waits_for_others_is_left_alone_for_a_while_where_there_are_many(
    settled: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, other = settled.group.name, FakeAgent(settled.group, "b")
    other.start()
    tick()  # its stay is kept
    assert tick() == 1, "few are looked at each time"
    monkeypatch.setattr(resting, "WAITS_SHARE", 1e-9)
    assert tick() == 1
    assert tick() == 0
    assert name not in resting.quiet()
    coordinator.rebalance(name)
    assert tick() == 1, "its target is another one"
    settled.follow()
    other.follow()
    assert tick() == 1
    monkeypatch.setattr(resting, "WAITS_MOST_MS", 0)
    rests()
    assert not Group.objects.get(name=name).missed_looks


def test_a_group_that_waits_for_its_history_is_looked_at_once_that_is_kept(
    settled: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resting, "WAITS_SHARE", 1e-9)
    other = FakeAgent(settled.group, "b")
    other.start()
    coordinator.rebalance(settled.group.name)
    settled.follow()
    other.follow()
    until(lambda: not coordinator.tick())
    assert coordinator.keep_history()
    assert coordinator.tick() == 1, "it rests only now"
    assert not coordinator.tick()
    assert not Group.objects.get(name=settled.group.name).missed_looks


def test_a_group_without_members_that_waits_for_others_is_not_quiet(
    settled: FakeAgent, group_name: str
) -> None:
    name = make_group(f"{group_name}-empty").name
    rests()
    assert name in resting.quiet()
    kept = at_rest.read(live_rests.kept_of(name) or b"")
    assert kept is not None
    live_rests.keep(name, msgspec.json.encode(replace(kept, waits=True)))
    assert name not in resting.quiet()


def test_one_that_waits_is_looked_at_when_its_time_is_over(
    settled: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resting, "WAITS_SHARE", 1e-9)
    monkeypatch.setattr(resting, "WAITS_LEAST_MS", 0)
    monkeypatch.setattr(resting, "WAITS_MOST_MS", 400)
    FakeAgent(settled.group, "b").start()
    until(lambda: not tick())
    until(tick)
    assert not Group.objects.get(name=settled.group.name).missed_looks


def test_a_lock_that_ran_out_is_seen_although_its_holder_beats(
    settled: FakeAgent, store: Any
) -> None:
    name = settled.group.name
    some, *others = (Claim(p, fence) for p, fence in sorted(settled.held.items()))
    run(agent_side.renew("a", 1, [some, *others]), name)
    run(agent_side.renew("a", settled.group.values.lease_ms, others), name)
    until(lambda: not store.exists(GroupKeys(name).lock(some.partition)))
    assert tick() == 1
    assert live_groups.read(name, Purpose.LOOK).grants[some.partition].ended == "expired"


def test_locks_that_ran_out_end_with_one_look_by_scripts_that_take_few(
    settled: FakeAgent, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "SWEPT_AT_ONCE", 1)
    name, held = settled.group.name, sorted(settled.held)
    run(agent_side.renew("a", 1, [Claim(p, settled.held[p]) for p in held]), name)
    until(lambda: not any(store.exists(GroupKeys(name).lock(p)) for p in held))
    swept = list[tuple[str, ...]]()
    perform = carrying.perform

    def noted(here: Here, effect: Any) -> Any:
        if isinstance(effect, effects.Run) and effect.call.script == "sweep":
            swept.append(tuple(effect.call.args))
        return perform(here, effect)

    monkeypatch.setattr(carrying, "perform", noted)
    assert tick() == 1
    assert sorted(swept) == [(str(p),) for p in held]
    grants = live_groups.read(name, Purpose.LOOK).grants
    assert {grants[p].ended for p in held} == {"expired"}


def test_after_nobody_ticked_for_a_while_every_group_is_looked_at(
    settled: FakeAgent, store: Any
) -> None:
    store.hincrby(queue._ticker(), "seen_ms", -TICKER_AWAY_MS - 1)
    assert tick() == 1
    assert live_groups.read(settled.group.name, Purpose.LOOK).meta.away


def test_after_the_clock_was_set_back_every_group_is_looked_at(
    settled: FakeAgent, store: Any
) -> None:
    store.hincrby(queue._ticker(), "seen_ms", 60_000)
    assert tick() == 1


def test_a_group_rests_on_while_the_database_is_away(
    settled: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*only: Any) -> Any:
        raise OperationalError("the database is away")

    monkeypatch.setattr(group_rows, "_asking", refused)
    assert tick() == 0
    settled.leave()
    assert tick() == 1
    assert not live_groups.read(settled.group.name, Purpose.LOOK).members


def test_a_group_that_cannot_be_looked_at_does_not_rest(
    settled: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled.leave()
    with monkeypatch.context() as patch:
        patch.setattr(rules, "tell", lambda record: 1 / 0)
        assert tick() == 0
        assert tick() == 0
    assert tick() == 1


def test_of_many_groups_only_those_with_something_to_do_are_looked_at(
    settled: FakeAgent, group_name: str
) -> None:
    others = [make_group(f"{group_name}-{n}") for n in range(3)]
    rests()
    FakeAgent(others[1], "b").start()
    assert tick() == 1


def test_of_groups_whose_keys_are_damaged_nothing_is_taken_from_the_others_answers(
    settled: FakeAgent, store: Any, group_name: str
) -> None:
    others = [make_group(f"{group_name}-{n}").name for n in range(3)]
    rests()
    kept = {name: one.rest for name, one in resting._known.all().items()}
    store.delete(GroupKeys(others[1]).meta)
    store.set(GroupKeys(others[1]).meta, "no hash")
    found = glances.glances(kept)
    assert found.keys() == {settled.group.name, others[0], others[2]}
    assert all(glance.counted == kept[name].counted for name, glance in found.items())
    store.hincrby(GroupKeys(others[2]).meta, "looks_due", 1)
    found = glances.glances(kept)
    assert found[others[0]].counted == kept[others[0]].counted
    assert found[others[2]].counted != kept[others[2]].counted


def test_what_nobody_marked_is_found_by_a_look_that_nothing_asked_for(
    settled: FakeAgent, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, keys = settled.group, GroupKeys(settled.group.name)
    for name in ("UNASKED_LEAST_MS", "UNASKED_MOST_MS"):
        monkeypatch.setattr(resting, name, 0)
    store.hincrby(keys.meta, "looks_due", 1)
    assert (tick(), tick()) == (1, 1), "the second was asked for by nothing"
    group.refresh_from_db()
    assert group.missed_looks == 0
    store.hset(keys.asked, "nobody", "1")
    assert tick() == 1
    group.refresh_from_db()
    assert (group.missed_looks, len(group.faults)) == (1, 1)


def test_a_scale_down_that_is_begun_while_a_look_goes_on_is_read_once_members_are_told(
    settled: FakeAgent,
) -> None:
    """The row that a look has is from before: what it does not know it would take back."""
    before = Here(settled.group.name, settled.group, is_asked=False)
    with_a_scale_down(settled.group)
    read = partial(perform, before)
    assert not read(effects.ReadScaleDowns(0, was_told=False)).records
    assert len(read(effects.ReadScaleDowns(0, was_told=True)).records) == 1


def test_a_scale_down_that_is_begun_while_a_look_goes_on_wakes_the_group(
    settled: FakeAgent, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = resting.keep

    def late(*looked: Any) -> None:
        keep(*looked)
        Group.objects.filter(pk=settled.group.pk).update(scale_downs_version=1)

    store.hincrby(GroupKeys(settled.group.name).meta, "looks_due", 1)
    with monkeypatch.context() as patch:
        patch.setattr(resting, "keep", late)
        assert tick() == 1
    assert tick() == 1, "what was kept is by the row of before"


def test_looks_that_nothing_asks_for_come_seldom_and_not_all_at_once() -> None:
    found = {resting._period_ms(f"g{n}", 0.001, 100) for n in range(1_000)}
    assert len(found) > 900
    assert found.pop() >= resting.UNASKED_LEAST_MS / 2


def test_who_waits_is_left_alone_for_ten_seconds_at_most_and_of_few_groups_for_less() -> None:
    assert resting._waits_ms("g", 60.0, 1_000) == resting.WAITS_MOST_MS
    assert resting._waits_ms("g", 0.005, 10) < resting.WAITS_LEAST_MS
    assert len({resting._waits_ms(f"g{n}", 0.005, 100) for n in range(1_000)}) > 900


def test_a_look_reads_the_group_again_only_after_it_changed_something(
    settled: FakeAgent, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, read, purposes = GroupKeys(settled.group.name), live_groups.read, list[Purpose]()

    def noted(name: str, purpose: Purpose, *more: Any) -> Any:
        purposes.append(purpose)
        return read(name, purpose, *more)

    monkeypatch.setattr(live_groups, "read", noted)
    store.hincrby(keys.meta, "looks_due", 1)
    assert tick() == 1
    assert purposes == [Purpose.TICK]
    store.zadd(keys.beats, {"a": 1})  # lost long ago
    assert tick() == 1
    assert purposes[1:] == [Purpose.TICK, Purpose.LOOK]


def test_a_group_that_is_said_to_fail_is_looked_at_until_it_does_not(settled: FakeAgent) -> None:
    health.note_look(settled.group.name, is_well=False)
    assert (tick(), tick()) == (1, 0)
    assert not health.troubles().answer().failing


def test_of_what_rests_nothing_is_asked_twice(settled: FakeAgent) -> None:
    known = resting.remembering()
    assert Round(Said(), line=Line(known)).run() == 0
    assert not known.at_rest.changed


def test_of_a_group_that_is_gone_nothing_is_kept(settled: FakeAgent, group_name: str) -> None:
    other = make_group(f"{group_name}-gone").name
    rests()
    line = Line(resting.remembering())
    assert Round(Said(), line=line).run() == 0
    assert live_rests.kept_of(other)
    Group.objects.get(name=other).delete()
    until(lambda: Round(Said(), line=line).run() == 0 and not live_rests.kept_of(other))
    assert live_rests.kept_of(settled.group.name)
