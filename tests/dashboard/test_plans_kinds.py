"""Plans of each kind, stateful groups, and what a plan is to cost."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from assignment.coordinator.planning import target_of
from assignment.scripts.agent_side import SnapshotRecord
from assignment.scripts.group_read import Purpose
from assignment.types import Coordination, Offset, Partition
from dashboard import coordinator
from dashboard.actions import drafting, plans
from dashboard.actions.groups import Refused
from dashboard.actions.sizes import state_bytes
from dashboard.live import groups as live_groups
from dashboard.models import AuditEntry, Group, Plan, Rebalance, ScaleDown
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.planning import ADA, ANN, BOB, EVE, STAGED_ADMIN, drain, uneven
from tests.dashboard.scaling import Scene
from tests.dashboard.scenes import settle

# --- stateful -------------------------------------------------------------------------------------


def test_the_rounds_of_a_plan_do_not_make_it_stale(scene: Scene) -> None:
    scene.join("S4")
    draft = drafting.rebalance(scene.group, "sticky", None)
    plan = plans.run_now(scene.group, draft, EVE)
    assert (plan.content.moves, len(plan.content.learning)) == ([], 1)
    scene.round()
    plan.refresh_from_db()
    assert (plan.state, scene.last.cause) == ("running", "manual")
    scene.agents["S4"].catch_up()
    scene.settle()
    plan.refresh_from_db()
    assert (plan.state, plan.moved) == ("done", {"confirmed": 1})


# --- the other kinds ------------------------------------------------------------------------------


def test_a_scale_down_is_proposed_approved_run_and_compared(scene: Scene) -> None:
    plan = plans.propose(scene.group, drain(scene, "S3"), ANN)
    assert not ScaleDown.objects.exists()
    assert [move[:2] for move in plan.content.learning] == [[2, "S3"]]
    plan = plans.run(plans.approve(plan, BOB, digest=plan.digest), ANN)
    row = scene.scale_down()
    assert (row.plan, row.actor, sorted(row.members)) == (plan, "ann", ["S3"])
    with pytest.raises(Refused, match="another plan of this group runs"):
        plans.run_now(scene.group, drafting.rebalance(scene.group, "sticky", None), EVE)
    scene.settle()
    for agent in scene.here:
        agent.catch_up()
    scene.settle()
    tick()
    plan.refresh_from_db()
    assert (scene.scale_down().state, plan.state, plan.moved) == ("done", "done", {"confirmed": 1})


def test_a_stale_scale_down_tells_nobody(scene: Scene) -> None:
    plan = plans.propose(scene.group, drain(scene, "S3"), ANN)
    plan = plans.approve(plan, BOB, digest=plan.digest)
    scene.join("S4")
    with pytest.raises(Refused, match="the plan is stale"):
        plans.run(plan, ANN)
    assert not ScaleDown.objects.exists()


def test_a_running_scale_down_is_cancelled_by_its_plan(scene: Scene) -> None:
    plan = plans.run_now(scene.group, drain(scene, "S3"), EVE)
    plans.cancel(plan, EVE)
    assert scene.scale_down().state == "cancelled"
    scene.settle()
    plan.refresh_from_db()
    assert (plan.state, plan.moved) == ("cancelled", {"not attempted": 1})


def test_a_scale_down_that_does_not_begin_fails_its_plan(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise Refused("the group is not as it was")

    draft = drain(scene, "S3")
    monkeypatch.setattr(plans.scale_down, "start", refuse)
    with pytest.raises(Refused, match="not as it was"):
        plans.run_now(scene.group, draft, EVE)
    assert (Plan.objects.get().state, Plan.objects.get().problem) == (
        "failed",
        "the group is not as it was",
    )


def test_whoever_was_killed_before_it_began_leaves_no_plan_that_runs_for_ever(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plans.BEGIN, "scale-down", lambda plan, by: lambda entitled: None)
    plan = plans.run_now(scene.group, drain(scene, "S3"), EVE)
    tick()
    plan.refresh_from_db()
    assert plan.state == "running"
    Plan.objects.update(started_at_ms=1)
    tick()
    plan.refresh_from_db()
    assert plan.state == "failed"


def test_a_strategy_change_publishes_the_approved_target_and_stays(
    group: Group, agents: list[FakeAgent]
) -> None:
    own = {"config_map": {"a": ["0-2"], "b": [3]}}
    draft = drafting.strategy_change(group, "config", own)
    plan = plans.propose(group, draft, STAGED_ADMIN)
    group.refresh_from_db()
    assert group.values.strategy == "sticky"
    plan = plans.run(plans.approve(plan, ADA, digest=plan.digest), STAGED_ADMIN)
    group.refresh_from_db()
    assert (group.values.strategy, group.values.strategy_parameters) == ("config", own)
    settle(group, agents)
    plan.refresh_from_db()
    assert (plan.state, plan.moved) == ("done", {"confirmed": 1})
    row = plan.request.rebalance
    assert (row.cause, row.actor, row.moved, row.strategy) == ("strategy", "sam", 1, "config")


def test_a_strategy_change_whose_group_changed_meanwhile_publishes_no_other_target_as_its_own(
    group: Group, agents: list[FakeAgent]
) -> None:
    own = {"config_map": {"a": ["0-2"], "b": [3]}}
    plan = plans.run_now(group, drafting.strategy_change(group, "config", own), ADA)
    FakeAgent(group, "c").start()
    coordinator.rebalance(group.name)
    tick()
    plan.refresh_from_db()
    assert (plan.state, plan.request.state) == ("partly done", "refused")
    assert plan.problem.startswith("stale: the group changed since the plan was made")


def test_a_change_of_coordination_is_a_plan(group: Group, agents: list[FakeAgent]) -> None:
    epoch = live_groups.read(group.name, Purpose.LOOK).meta.mode_epoch
    draft = drafting.switch(group, Coordination.CLIENT, epoch)
    plan = plans.propose(group, draft, STAGED_ADMIN)
    plan = plans.run(plans.approve(plan, ADA, digest=plan.digest), STAGED_ADMIN)
    assert (plan.state, plan.moved, plan.content.every_move) == ("done", {}, [])
    assert live_groups.read(group.name, Purpose.LOOK).meta.coordination is Coordination.CLIENT
    entry = AuditEntry.objects.get(action="switch coordination")
    assert (entry.actor, entry.result) == ("sam", "done")


def test_a_change_of_coordination_over_another_mode_epoch_is_refused(
    group: Group, agents: list[FakeAgent]
) -> None:
    with pytest.raises(Refused, match="the mode epoch is 1"):
        plans.run_now(group, drafting.switch(group, Coordination.SERVER, 7), ADA)
    assert not Plan.objects.exists()


# --- what it is to cost ---------------------------------------------------------------------------


def test_the_pause_is_predicted_from_the_groups_own_rebalances(
    group: Group, agents: list[FakeAgent]
) -> None:
    assert uneven(group).metrics["pause_ms"] is None, "nothing of this group moved yet"
    plans.run_now(group, uneven(group), EVE)
    settle(group, agents)
    Rebalance.objects.filter(moved=1).update(ownership_gap_ms=40)
    draft = drafting.rebalance(group, "config", {"config_map": {"a": [], "b": ["0-3"]}})
    assert (draft.metrics["moves"], draft.metrics["pause_ms"]) == (3, 120)


def test_the_bytes_of_state_are_those_of_the_snapshots_that_are_seen(
    scene: Scene, tmp_path: Path, settings: Settings
) -> None:
    settings.SNAPSHOT_URLS = [str(tmp_path)]
    scene.join("S4")
    assert drafting.rebalance(scene.group, "sticky", None).metrics["state_bytes"] is None
    partition = Partition(scene.group.stream, 0)
    folder = tmp_path / scene.group.name / str(partition)
    folder.mkdir(parents=True)
    (folder / "one").write_bytes(b"x" * 1_234)
    record = SnapshotRecord(
        url=str(folder / "one"), offset=Offset.parse("1-1"), changelog_id="1-1", total=1, fence=1
    )
    view = live_groups.read(scene.group.name, Purpose.LOOK)
    target = target_of(view)
    assert [move.partition for move in target.change.learning] == [partition]
    seen = replace(view, snapshots={partition: (record,)})
    assert state_bytes(scene.group.name, seen, target.change) == 1_234
