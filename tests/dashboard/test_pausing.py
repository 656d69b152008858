"""Pausing and resuming: by command and action, what is audited, kept and put back."""

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from assignment.pauses import PauseState
from assignment.scripts import agent_side
from assignment.scripts.group_read import Purpose
from assignment.scripts.pausing import set_pauses
from assignment.types import HeldState, Partition
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.actions import pausing
from dashboard.actions.groups import Refused
from dashboard.coordinator import sampling
from dashboard.live import groups as live_groups
from dashboard.live import watching
from dashboard.live.group_state import GroupState
from dashboard.live.scripts import run
from dashboard.models import AuditEntry, AuditSource, Group
from dashboard.push import frames
from dashboard.records.audit import By
from dashboard.records.queries import groups as group_queries
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scenes import staffed

BY = By("ann", AuditSource.PAGE, "why")


@pytest.fixture
def agents(group: Group) -> list[FakeAgent]:
    return staffed(group, "a", "b")


def runs(agent: FakeAgent) -> None:
    """Its partitions are running in Redis too."""
    changes = (
        agent_side.StateChange(p, fence, HeldState.RESTORING, HeldState.RUNNING)
        for p, fence in agent.held.items()
    )
    run(agent_side.set_state(agent.member, changes), agent.group.name)


def ask(agent: FakeAgent) -> set[Partition]:
    """What its consumer is given for the next batch."""
    starts = run(agent_side.next_batch(agent.member), agent.group.name)
    return {start.partition for start in starts}


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    call_command(*arguments, "--reason", "why", "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_group_is_pausing_until_each_owner_has_asked(
    group: Group, agents: list[FakeAgent], capsys: pytest.CaptureFixture[str]
) -> None:
    for agent in agents:
        runs(agent)
    assert command(capsys, "pause", group.name)["progress"] == "pausing (0 of 4)"
    assert ask(agents[0]) == set()
    again = command(capsys, "pause", group.name)
    assert (again["progress"], again["changed"]) == ("pausing (2 of 4)", False)
    assert ask(agents[1]) == set()
    state, why = frames.state_of(watching.snapshot(group.name))
    assert state is GroupState.PAUSED and why.endswith("why")
    assert command(capsys, "resume", group.name)["progress"] == "running"
    assert ask(agents[0]) == set(agents[0].held)
    entries = AuditEntry.objects.filter(action__in=("pause", "resume"), result="done")
    assert [(e.action, e.reason, e.after["group"]) for e in entries.order_by("id")] == [
        ("pause", "why", True),
        ("resume", "why", False),
    ]


def test_the_lag_of_what_is_paused_needs_no_attention(
    group: Group, agents: list[FakeAgent], store: Any
) -> None:
    for agent in agents:
        runs(agent)
    pausing.pause(group, BY)
    for agent in agents:
        ask(agent)
    for number in range(4):
        for _ in range(500):
            store.xadd(f"{{{group.stream}:{number}}}", {"a": 1})
    sampling.sample()
    (row,) = group_queries.rows(live_groups.redis_now_ms())
    assert row.sample and (row.sample.lag_records, row.sample.lag_paused) == (2_000, 2_000)
    assert (row.sample.paused, row.sample.pausing) == (4, 0)
    assert row.state is GroupState.PAUSED and "by ann: why" in row.why
    group.refresh_from_db()
    assert group_queries.facts_of(row.sample, row.last, group).lag_records == 0


def test_partitions_are_named_and_bad_ones_are_refused(
    group: Group, agents: list[FakeAgent], capsys: pytest.CaptureFixture[str]
) -> None:
    found = command(capsys, "pause", group.name, "--partition", "1-2", "--partition", "1")
    assert found["partitions"] == [1, 2] and not found["whole_group"]
    for wrong, said in (("9", "no partition 9"), ("x", "neither a number"), ("3-1", "no range")):
        with pytest.raises(CommandError, match=said):
            call_command("pause", group.name, "--partition", wrong, "--reason", "why")
    command(capsys, "pause", group.name)
    with pytest.raises(CommandError, match="is paused with the whole group: resume the group"):
        call_command("resume", group.name, "--partition", "0", "--reason", "why")
    assert command(capsys, "resume", group.name)["partitions"] == [1, 2]


def test_a_tick_puts_back_what_redis_forgot_and_nothing_newer(
    group: Group, agents: list[FakeAgent], store: Any
) -> None:
    pausing.pause(group, BY, [1])
    keys = GroupKeys(group.name)
    store.delete(keys.pauses)
    store.hdel(keys.meta, "pause_version")
    coordinator.tick()
    back = live_groups.read(group.name, Purpose.LOOK).pauses
    assert {p.number: one.actor for p, one in back.partitions.items()} == {1: "ann"}
    Group.objects.filter(pk=group.pk).update(pauses={}, pause_version=0)  # an older database
    coordinator.tick()
    assert live_groups.read(group.name, Purpose.LOOK).pauses == back
    pausing.resume(group, BY, [1])
    assert pausing.standing(group).states == {}


def test_who_comes_second_is_refused_and_nothing_is_kept(
    group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    def another_first(call: Any, name: str) -> Any:
        monkeypatch.undo()
        pauses = live_groups.read(name, Purpose.LOOK).pauses
        other = pauses.with_partitions([Partition(group.stream, 3)], pause)
        run(set_pauses(other, pauses.version), name)
        return run(call, name)

    pause = pausing.Pause(actor="bob", reason="", at_ms=1)
    monkeypatch.setattr(pausing, "run", another_first)
    with pytest.raises(Refused, match="another one paused or resumed meanwhile"):
        pausing.pause(group, BY)
    group.refresh_from_db()
    assert (group.pauses, group.pause_version) == ({}, 0)
    assert {p.number for p in pausing.standing(group).states} == {3}
    assert pausing.standing(group).states[Partition(group.stream, 3)] is PauseState.PAUSING
