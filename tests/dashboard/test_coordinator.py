"""The coordinator on a real Redis: rebalances, sessions that end, what a wipe leaves."""

from contextlib import suppress
from typing import Any

import pytest

from assignment.coordinator import effects, setting_up
from assignment.coordinator import tick as rules
from assignment.scripts import recovery
from assignment.scripts.group_read import Purpose
from assignment.scripts.values import Call
from assignment.types import Coordination
from assignment.wire import GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.actions import at_once, groups
from dashboard.coordinator import carrying, running
from dashboard.coordinator.carrying import Here, perform, record_of
from dashboard.live import groups as live_groups
from dashboard.live import health, watching
from dashboard.live.connection import GroupDamaged, sync_client
from dashboard.live.scripts import run
from dashboard.models import (
    AuditEntry,
    AuditSource,
    Group,
    MemberRecord,
    PartitionMirror,
    Rebalance,
    RebalanceOutcome,
    Sample,
    Tenure,
)
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, make_group, owners, tick, until

pytestmark = pytest.mark.django_db
FAST = {
    "lease_ms": 600,
    "renew_ms": 200,
    "heartbeat_ms": 100,
    "session_timeout_ms": 400,
    "grace_ms": 300,
}


def test_a_join_becomes_a_target_and_tenures(group: Group, agent: FakeAgent) -> None:
    agent.start()
    assert coordinator.rebalance(group.name, "task-1", "worker-1").startswith("epoch 2")
    agent.follow()
    tick()
    assert owners(group) == dict.fromkeys(range(4), "a")
    row = Rebalance.objects.get()
    assert (row.outcome, row.cause, row.celery_task_id, row.celery_worker) == (
        RebalanceOutcome.DONE, "join", "task-1", "worker-1",
    )  # fmt: skip
    assert row.owners() == ["a"] * 4
    assert row.owners_before() == [None] * 4
    assert (row.score, row.max_minus_min, row.balance_degree) == (100.0, 0, 0.0)
    assert (row.total_ms or 0) >= (row.acquire_ms or 0)
    assert MemberRecord.objects.get().member_id == "a"


def test_all_that_gathered_is_one_rebalance(group: Group) -> None:
    members = [FakeAgent(group, name) for name in "abcd"]
    for member in members:
        member.start()
    coordinator.rebalance(group.name)
    assert coordinator.rebalance(group.name).startswith("nothing changed")
    row = Rebalance.objects.get()
    assert sorted(row.owners(), key=str) == ["a", "b", "c", "d"]
    assert {c["member"] for c in row.causes if c["reason"] == "join"} == set("abcd")


def test_a_second_member_takes_its_half_and_no_more(group: Group, agent: FakeAgent) -> None:
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    other = FakeAgent(group, "b")
    other.start()
    coordinator.rebalance(group.name)
    agent.follow()
    other.follow()
    tick()
    row = Rebalance.objects.first()
    assert row is not None
    assert (row.kept, row.moved, row.avoidable, row.stickiness) == (2, 2, 0, 0.5)
    assert row.outcome == RebalanceOutcome.DONE
    assert row.ownership_gap_ms is not None
    assert sorted(owners(group).values()) == ["a", "a", "b", "b"]


def test_no_rebalance_before_the_reports_asked_for(group: Group, agent: FakeAgent) -> None:
    agent.join()
    assert "waiting for reports of a" in coordinator.rebalance(group.name)
    agent.beat()
    assert coordinator.rebalance(group.name).startswith("epoch")


def test_a_run_that_has_to_wait_does_not_read_the_group_whole(
    group: Group, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = live_groups.read
    reads: list[str] = []
    monkeypatch.setattr(live_groups, "read", lambda *of: reads.append("whole") or read(*of))
    agent.join()
    assert coordinator.rebalance(group.name) == "waiting for reports of a"
    assert reads == []
    group.requests.create(actor="ann", strategy="averagely")
    assert coordinator.rebalance(group.name) == "waiting for reports of a"
    assert reads == ["whole"], "what a person asked for may be answered"
    group.requests.all().delete()
    sync_client().hset(GroupKeys(group.name).meta, "due_since_ms", 1)
    coordinator.rebalance(group.name)
    assert len(reads) == 2, "the time is up"
    sync_client().set(GroupKeys(group.name).asked, "of another kind")
    with pytest.raises(GroupDamaged):
        coordinator.rebalance(group.name)


def test_the_tick_finds_what_no_task_did(group: Group, agent: FakeAgent, published: Any) -> None:
    agent.start()
    before = published()
    tick()
    assert published() == before + 1
    tick()
    assert published() == before + 1, "a task is on its way already"


def test_a_silent_member_is_evicted_and_its_tenures_end(store: Any, group_name: str) -> None:
    group = make_group(group_name, **FAST)
    agent, other = FakeAgent(group, "a"), FakeAgent(group, "b")
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()

    def gone() -> bool:
        tick()
        return MemberRecord.objects.filter(group=group, member_id="a", end="lost").exists()

    until(gone)
    assert owners(group) == {}
    ends = set(Tenure.objects.filter(group=group).values_list("end", flat=True))
    assert ends == {"expired"}
    other.start()
    coordinator.rebalance(group.name)
    row = group.rebalances.first()
    assert row is not None
    assert row.cause == "member lost"


def test_a_session_ends_although_every_tick_of_the_group_is_late(
    store: Any, group_name: str
) -> None:
    """As with a thousand groups: whoever ticks lives, and comes round every four seconds."""
    group = make_group(group_name, **FAST)
    FakeAgent(group, "a").start()

    def gone() -> bool:
        store.hincrby(GroupKeys(group.name).meta, "tick_ms", -4_000)
        tick()
        return not live_groups.read(group.name, Purpose.LOOK).members

    until(gone)


def test_a_tick_that_takes_too_long_says_how_many_groups_wait(
    group: Group, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick()
    assert health.look().late_groups == 0
    monkeypatch.setattr(running, "SAID_EVERY_S", 0.0)
    monkeypatch.setattr(running, "LATE_S", 0.0)
    agent.start()
    tick()
    assert health.look().late_groups == 1


def test_a_member_that_left_is_recorded_so(group: Group, agent: FakeAgent) -> None:
    agent.start()
    tick()
    agent.leave()
    tick()
    assert MemberRecord.objects.get().end == "left"


def test_a_manual_rebalance_keeps_who_why_and_by_what(group: Group, agent: FakeAgent) -> None:
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    by = By("ann", AuditSource.PAGE, "too sticky")
    request = at_once.rebalance(group, by, strategy="averagely").request
    coordinator.rebalance(group.name)
    row = Rebalance.objects.first()
    assert row is not None
    assert (row.planned, row.actor, row.reason, row.strategy, row.cause) == (
        True, "ann", "too sticky", "averagely", "manual",
    )  # fmt: skip
    request.refresh_from_db()
    assert (request.state, request.rebalance) == ("done", row)
    entry = AuditEntry.objects.get(action="rebalance")
    assert (entry.actor, entry.reason) == ("ann", "too sticky")
    assert entry.after["target_epoch"] == row.target_epoch


def test_how_long_a_target_took_to_compute_is_recorded(group: Group, agent: FakeAgent) -> None:
    agent.start()
    coordinator.rebalance(group.name)
    row = Rebalance.objects.get()
    assert row.compute_ms is not None
    assert row.compute_ms >= 0


def test_a_refused_target_leaves_no_record(
    group: Group, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.start()

    def late(call: Call[Any], name: str) -> Any:
        if call.script == "set_target":
            live_groups.read(name, Purpose.REBALANCE)  # another coordinator comes in between
        return run(call, name)

    monkeypatch.setattr(carrying, "run", late)
    assert coordinator.rebalance(group.name) == "another coordinator runs"
    assert not Rebalance.objects.exists()


def test_changed_settings_reach_redis_and_the_audit(group: Group, agent: FakeAgent) -> None:
    groups.change_settings(group, {"grace_ms": 5000}, by=By("ann", AuditSource.PAGE, "quicker"))
    assert live_groups.read(group.name, Purpose.LOOK).meta.settings_epoch == 2
    entry = AuditEntry.objects.get(action="change settings")
    assert (entry.before, entry.after) == ({"grace_ms": 8000}, {"grace_ms": 5000})
    agent.start()
    coordinator.rebalance(group.name)
    group.refresh_from_db()
    groups.change_settings(group, {"strategy": "averagely"}, by=By("ann", AuditSource.PAGE))
    coordinator.rebalance(group.name)
    row = Rebalance.objects.first()
    assert row is not None
    assert (row.cause, row.strategy, row.planned, row.actor) == (
        "strategy", "averagely", True, "ann",
    )  # fmt: skip


@pytest.mark.parametrize("stands_at", range(3))
def test_whoever_stood_still_puts_no_older_settings_over_newer_ones(
    group: Group, stands_at: int
) -> None:
    """Before any of its effects; the last of them tells Redis."""
    by = By("ann", AuditSource.PAGE)
    Group.objects.update(settings=group.settings | {"grace_ms": 5_000})  # Redis is not told yet
    slow = Group.objects.get()
    steps, here = setting_up.tell(record_of(slow)), Here(slow.name, slow)
    effect = next(steps)
    with suppress(StopIteration):
        for number in range(4):
            if number == stands_at:
                groups.change_settings(Group.objects.get(), {"grace_ms": 6_000}, by=by)
            effect = steps.send(perform(here, effect))
    told = live_groups.read(group.name, Purpose.LOOK).meta.settings
    assert told == Group.objects.get().values and told.grace_ms == 6_000


def as_read_before_the_incarnation(group: Group) -> Group:
    """By another process."""
    group.refresh_from_db()
    carrying.RAISED.clear()
    slow = Group.objects.get()
    slow.incarnation = group.incarnation - 1
    return slow


def test_an_incarnation_that_the_database_has_is_not_chosen_again(
    group: Group, agent: FakeAgent
) -> None:
    slow = as_read_before_the_incarnation(group)
    sync_client().hdel(GroupKeys(group.name).meta, "incarnation", "run_id")
    view = live_groups.read(group.name, Purpose.LOOK)
    rule = setting_up.raise_incarnation(record_of(slow), view)
    carrying.carry_out(rule, Here(slow.name, slow))
    assert live_groups.read(group.name, Purpose.LOOK).meta.incarnation == 0
    tick()
    assert live_groups.read(group.name, Purpose.LOOK).meta.incarnation == group.incarnation + 1


def test_whoever_read_the_group_before_it_was_set_up_puts_it_back_after_a_wipe(
    store: Any, group_name: str
) -> None:
    group = make_group(group_name, **FAST)
    slow = as_read_before_the_incarnation(group)
    sync_client().delete(*sync_client().keys(f"ek:{{{group.name}}}:*"))
    carrying.carry_out(rules.tick(record_of(slow), Coordination.SERVER), Here(slow.name, slow))
    assert run(recovery.hold(), group.name), "owners that Redis forgot may be at work"
    assert live_groups.read(group.name, Purpose.LOOK).meta.incarnation == 0
    until(lambda: not run(recovery.hold(), group.name))
    tick()
    assert live_groups.read(group.name, Purpose.LOOK).meta.incarnation > group.incarnation


def test_samples_and_the_mirror(group: Group, agent: FakeAgent, store: Any) -> None:
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    store.xadd(StreamKeys(group.stream).entries(1), {"e": 1}, id="7-0")
    store.hset(GroupKeys(group.name).offsets, f"{group.stream}:1", "7-0")
    store.hset(GroupKeys(group.name).applied, f"{group.stream}:1", "30 1000")
    assert coordinator.sample() == 1
    row = Sample.objects.get()
    assert (row.members, row.owned, row.applied_total) == (1, 4, 30)
    store.hset(GroupKeys(group.name).applied, f"{group.stream}:1", "90 1000")
    until(lambda: live_groups.redis_now_ms() > row.at_ms)
    coordinator.sample()
    assert (Sample.objects.last() or row).events_per_second
    mirror = PartitionMirror.objects.get()
    assert (mirror.number, mirror.offset) == (1, "7-0")


def test_lag_counts_events_whatever_they_came_in(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    keys = StreamKeys(group.stream)
    assert [p.lag_records for p in watching.snapshot(group.name).partitions] == [0] * 4
    store.xadd(keys.entries(0), {"batch": "x" * 100_000})
    store.hset(keys.producers(0), mapping={":events": 500, ":entries": 1})
    store.xadd(keys.entries(0), {"one": "event"})
    store.xadd(keys.entries(1), {"one": "event"})
    store.hset(GroupKeys(group.name).applied, f"{group.stream}:0", "200 1000")
    numbers = watching.snapshot(group.name)
    assert [p.lag_records for p in numbers.partitions] == [301, 1, 0, 0]
    assert numbers.numbers.lag_records == 302


def test_a_view_from_before_a_join_says_nothing_of_the_member(
    group: Group, agent: FakeAgent
) -> None:
    """A tick that stood still after it read, and goes on when another has noted the member."""
    old = rules.tick(record_of(group), Coordination.SERVER)
    effect, here = next(old), Here(group.name, group)
    while not isinstance(effect, effects.ReadStays):
        effect = old.send(perform(here, effect))
    agent.start()
    tick()
    with suppress(StopIteration):
        while True:
            effect = old.send(perform(here, effect))
    row = MemberRecord.objects.get()
    assert (row.member_id, row.end) == ("a", None)


def test_what_should_never_be_is_audited_once_and_shown_until_it_is_over(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    assert group.faults == []
    store.hset(GroupKeys(group.name).asked, "nobody", "1")
    tick()
    tick()
    group.refresh_from_db()
    assert group.faults == [["member", "nobody has a row in asked and is no member"]]
    assert AuditEntry.objects.get(action="invariant broken").after == {"kind": "member"}
    store.hdel(GroupKeys(group.name).asked, "nobody")
    tick()
    group.refresh_from_db()
    assert group.faults == []
