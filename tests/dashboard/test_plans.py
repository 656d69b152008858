"""Plans: from proposing to what became of each move, and every way in which one is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError
from pytest_django.fixtures import Settings

from assignment.coordinator import rebalance as rebalancing
from assignment.coordinator.effects import SetTarget
from assignment.coordinator.effects import run as run_steps
from assignment.coordinator.planning import target_of
from assignment.scripts.agent_side import SnapshotRecord
from assignment.scripts.dashboard_side import request_rebalance
from assignment.scripts.group_read import Purpose
from assignment.types import Coordination, Offset, Partition, Reason
from dashboard import coordinator
from dashboard.actions import drafting, plans
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Denied, Grant, NeedsApproval, Rights
from dashboard.actions.sizes import state_bytes
from dashboard.coordinator import carrying
from dashboard.live import groups as live_groups
from dashboard.live.scripts import run
from dashboard.models import (
    AuditEntry,
    AuditSource,
    Group,
    Plan,
    Rebalance,
    RebalanceRequest,
    ScaleDown,
)
from dashboard.records.audit import By
from dashboard.records.planned import Content, packed
from dashboard.records.queries import plans as queries
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.scaling import Scene
from tests.dashboard.scenes import settle, staffed


def by(name: str, *grants: str) -> By:
    rights = Rights(tuple(Grant.read(text) for text in grants))
    return By(name, AuditSource.PAGE, "why", rights=rights)


ANN = by("ann", "stage operator")
BOB = by("bob", "approver")
EVE = by("eve", "operator")


@pytest.fixture
def agents(group: Group) -> list[FakeAgent]:
    return staffed(group, "a", "b")


def averagely(group: Group) -> drafting.Draft:
    return drafting.rebalance(group, "averagely", None)


def uneven(group: Group) -> drafting.Draft:
    """3 and 1: one partition moves."""
    first = {"a": ["0-2"], "b": [3]}
    return drafting.rebalance(group, "config", {"config_map": first})


def proposed(group: Group) -> Plan:
    return plans.propose(group, uneven(group), ANN)


def approved(group: Group) -> Plan:
    plan = proposed(group)
    return plans.approve(plan, BOB, digest=plan.digest)


def packed_of(reason: str) -> bytes:
    numbers = {"proposed_at_ms": 1, "expires_at_ms": 2, "needs_approval": True}
    texts = {"group": "g", "kind": "rebalance", "proposed_by": "ann", "reason": reason}
    return packed(Content(inputs={}, base={}, **numbers, **texts))[0]  # type: ignore[arg-type]


def outcomes(plan: Plan) -> dict[int, str]:
    return {row.move.number: row.outcome.value for row in queries.compared(plan)}


def test_proposed_by_one_approved_by_another_run_and_compared(
    group: Group, agents: list[FakeAgent]
) -> None:
    plan = proposed(group)
    predicted = plan.content.metrics["moves"]
    assert (plan.state, predicted > 0) == ("proposed", True)
    assert set(outcomes(plan).values()) == {"pending"}
    plan = plans.approve(plan, BOB, digest=plan.digest)
    assert (plan.state, plan.approved_by) == ("approved", "bob")
    plan = plans.run(plan, ANN)
    assert (plan.state, set(outcomes(plan).values())) == ("running", {"pending"})
    settle(group, agents)
    plan.refresh_from_db()
    assert (plan.state, plan.moved) == ("done", {"confirmed": predicted})
    row = plan.request.rebalance
    assert (row.moved, row.cause, row.planned, row.actor) == (predicted, "manual", True, "ann")
    by_plan = [member for member, roles in plan.content.rows.items() for _ in roles["active"]]
    assert sorted(by_plan) == sorted(owner for owner in row.owners() if owner)
    assert [len(agent.held) for agent in agents] == [3, 1]
    taken = AuditEntry.objects.filter(object=str(plan)).order_by("seq")
    assert [(entry.actor, entry.action) for entry in taken] == [
        ("ann", "propose plan"),
        ("bob", "approve plan"),
        ("ann", "run plan"),
        ("evenkeel", "plan done"),
    ]


def test_who_may_at_once_makes_and_runs_it_in_one_step(
    group: Group, agents: list[FakeAgent]
) -> None:
    plan = plans.run_now(group, uneven(group), EVE)
    assert (plan.state, plan.needs_approval, plan.approved_by) == ("running", False, "")
    settle(group, agents)
    plan.refresh_from_db()
    assert plan.state == "done"


def test_who_is_staged_proposes_and_does_not_run(group: Group, agents: list[FakeAgent]) -> None:
    with pytest.raises(NeedsApproval, match="propose it as a plan"):
        plans.run_now(group, uneven(group), ANN)
    assert not Plan.objects.exists()
    with pytest.raises(Denied):
        plans.propose(group, uneven(group), by("bob"))


def test_nobody_approves_their_own(group: Group, agents: list[FakeAgent]) -> None:
    plan = proposed(group)
    both = by("ann", "operator", "approver")
    with pytest.raises(Refused, match="somebody else than who proposed it"):
        plans.approve(plan, both, digest=plan.digest)
    with pytest.raises(IntegrityError):
        Plan.objects.update(approved_by="ann")


def test_nothing_that_needs_approval_runs_without(group: Group, agents: list[FakeAgent]) -> None:
    plan = proposed(group)
    with pytest.raises(Refused, match="a plan that is proposed cannot be run"):
        plans.run(plan, ANN)
    with pytest.raises(IntegrityError):
        Plan.objects.update(state="running")


def test_an_operator_does_not_approve(group: Group, agents: list[FakeAgent]) -> None:
    plan = proposed(group)
    with pytest.raises(Denied, match="to approve a plan takes the role approver or admin"):
        plans.approve(plan, EVE, digest=plan.digest)


# --- stale ----------------------------------------------------------------------------------------


def test_a_plan_is_stale_once_the_group_changed_and_nothing_is_published(
    group: Group, agents: list[FakeAgent]
) -> None:
    plan, count = approved(group), Rebalance.objects.count()
    FakeAgent(group, "c").start()
    with pytest.raises(Refused, match="the plan is stale: the group changed"):
        plans.run(plan, ANN)
    plan.refresh_from_db()
    assert (plan.state, outcomes(plan)) == ("stale", {plan.content.moves[0][0]: "not attempted"})
    assert Rebalance.objects.count() == count and not RebalanceRequest.objects.exists()


def test_the_coordinator_refuses_what_changed_between_run_and_its_turn(
    group: Group, agents: list[FakeAgent]
) -> None:
    """It computes for who joined, by the group's own strategy: not what was approved."""
    plan = plans.run(approved(group), ANN)
    agents.append(FakeAgent(group, "c"))
    agents[-1].start()
    settle(group, agents)
    plan.refresh_from_db()
    assert (plan.state, plan.request.state, plan.request.rebalance) == ("stale", "refused", None)
    assert "the group changed since the plan was made" in plan.problem
    assert not Rebalance.objects.filter(planned=True).exists()


def test_a_target_that_came_since_makes_it_stale(group: Group, agents: list[FakeAgent]) -> None:
    plan = approved(group)
    run(request_rebalance(Reason.MANUAL), group.name)
    coordinator.rebalance(group.name)
    with pytest.raises(Refused, match="stale: a rebalance to epoch"):
        plans.run(plan, ANN)


def test_the_group_that_changes_while_the_target_is_on_its_way_is_not_overwritten(
    group: Group, agents: list[FakeAgent]
) -> None:
    """Between the coordinator's reading and its storing: the script itself refuses."""
    plan, here = plans.run(approved(group), ANN), carrying.Here(group.name, group)
    said: list[Any] = []

    def perform(effect: Any) -> Any:
        if not isinstance(effect, SetTarget):
            return carrying.perform(here, effect)
        FakeAgent(group, "c").start()
        said.append(carrying.perform(here, effect))
        return said[-1]

    run_steps(rebalancing.rebalance(Coordination.SERVER), perform)
    assert said == ["the group changed"]
    assert not Rebalance.objects.filter(planned=True).exists()
    coordinator.rebalance(group.name)
    tick()
    plan.refresh_from_db()
    assert plan.state == "stale"


# --- never twice ----------------------------------------------------------------------------------


def test_one_plan_of_a_group_runs_at_a_time(group: Group, agents: list[FakeAgent]) -> None:
    first, second = approved(group), approved(group)
    plans.run(first, ANN)
    with pytest.raises(Refused, match="another plan of this group runs"):
        plans.run(second, ANN)
    second.refresh_from_db()
    assert (second.state, RebalanceRequest.objects.count()) == ("approved", 1)
    with pytest.raises(Refused, match="another plan of this group runs"):
        plans.run_now(group, uneven(group), EVE)
    assert Plan.objects.count() == 2, "what did not run leaves no draft"


def test_two_who_run_one_plan_at_once_run_it_once(group: Group, agents: list[FakeAgent]) -> None:
    plan = approved(group)
    seen_by_another = Plan.objects.get(pk=plan.pk)
    plans.run(plan, ANN)
    with pytest.raises(Refused, match="the plan is running by now"):
        plans.run(seen_by_another, EVE)
    coordinator.rebalance(group.name)
    published = Rebalance.objects.filter(planned=True).count()
    for _ in range(3):
        tick()
        coordinator.rebalance(group.name)
    assert (published, Rebalance.objects.filter(planned=True).count()) == (1, 1)


def test_a_coordinator_that_was_killed_after_it_stored_the_target_does_not_store_it_again(
    group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plans.run(approved(group), ANN)
    with monkeypatch.context() as patch:
        patch.setattr(carrying.outbox, "keep", lambda group: False)
        coordinator.rebalance(group.name)
        epoch = live_groups.read(group.name, Purpose.LOOK).meta.target_epoch
    plan.request.refresh_from_db()
    assert plan.request.state == "taken"
    coordinator.rebalance(group.name)
    assert live_groups.read(group.name, Purpose.LOOK).meta.target_epoch == epoch
    plan.request.refresh_from_db()
    assert plan.request.state == "done"


def test_a_plan_whose_task_was_lost_is_found_by_the_tick(
    group: Group, agents: list[FakeAgent], published: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "_ask", lambda group: None)
    plans.run(approved(group), ANN)
    before = published()
    tick()
    assert published() == before + 1
    assert coordinator.rebalance(group.name).startswith("epoch")


# --- ends -----------------------------------------------------------------------------------------


def test_what_is_not_what_was_looked_at_is_neither_approved_nor_run(
    group: Group, agents: list[FakeAgent]
) -> None:
    plan = proposed(group)
    with pytest.raises(Refused, match="not the one that was looked at"):
        plans.approve(plan, BOB, digest="0" * 64)
    plan = plans.approve(plan, BOB, digest=plan.digest)
    text, _ = packed(replace(plan.content, reason="another"))
    Plan.objects.update(packed=text)
    with pytest.raises(Refused, match="not the one that was looked at"):
        plans.run(Plan.objects.get(), ANN)


@pytest.mark.parametrize("stored", [b"", b"x" * 40, packed_of("another")])
def test_what_was_changed_after_it_was_run_is_not_published_and_holds_up_nobody(
    group: Group, agents: list[FakeAgent], stored: bytes
) -> None:
    plan = plans.run(approved(group), ANN)
    Plan.objects.update(packed=stored)
    agents.append(FakeAgent(group, "c"))
    agents[-1].start()
    settle(group, agents)
    plan = Plan.objects.get()
    assert (plan.state, plan.problem) == (
        "stale",
        "the stored plan is not the one that was looked at",
    )
    assert not Rebalance.objects.filter(planned=True).exists()


def test_rejected_and_cancelled_ones_do_not_run(group: Group, agents: list[FakeAgent]) -> None:
    rejected, cancelled = plans.reject(proposed(group), BOB), plans.cancel(approved(group), ANN)
    assert (rejected.state, cancelled.state) == ("rejected", "cancelled")
    for plan in (rejected, cancelled):
        with pytest.raises(Refused, match="cannot be run"):
            plans.run(plan, ANN)
    with pytest.raises(Refused, match="the plan is rejected by now"):
        plans.approve(rejected, BOB, digest=rejected.digest)


def test_a_plan_expires(
    group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = proposed(group), approved(group)
    later = queries.now_ms() + plans.EXPIRY_MS
    monkeypatch.setattr(plans, "now_ms", lambda: later)
    with pytest.raises(Refused, match="the plan has expired"):
        plans.run(second, ANN)
    second.refresh_from_db()
    assert second.state == "expired"
    monkeypatch.setattr(queries, "now_ms", lambda: later)
    tick()
    first.refresh_from_db()
    assert (first.state, first.problem) == ("expired", "nobody ran it in time")


def test_a_running_one_is_cancelled_and_what_is_published_stays(
    group: Group, agents: list[FakeAgent]
) -> None:
    plan = plans.cancel(plans.run(approved(group), ANN), ANN)
    assert plan.state == "cancelled"
    assert coordinator.rebalance(group.name).startswith("nothing changed")
    other = plans.run(approved(group), ANN)
    coordinator.rebalance(group.name)
    RebalanceRequest.objects.filter(plan=other).update(state="taken")
    with pytest.raises(Refused, match="it is just being carried out"):
        plans.cancel(other, ANN)
    RebalanceRequest.objects.filter(plan=other).update(state="done")
    other = plans.cancel(other, ANN)
    assert (other.state, other.moved) == ("cancelled", {"unchanged": 1})
    settle(group, agents)
    assert [len(agent.held) for agent in agents] == [3, 1]
    assert plans.run_now(group, averagely(group), EVE).state == "running"


def test_moves_that_did_not_come_to_pass_are_told_apart(
    group: Group, agents: list[FakeAgent]
) -> None:
    """The member that was to get one is gone before it has it."""
    plan = plans.run(approved(group), ANN)
    coordinator.rebalance(group.name)
    agents.pop(0).leave()
    settle(group, agents)
    plan.refresh_from_db()
    assert (plan.state, plan.moved) == ("failed", {"unchanged": 1})


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


def drain(scene: Scene, *members: str, **more: Any) -> drafting.Draft:
    asked = {"percent": None, "timeout_ms": None, "at_deadline": "force", "eager": None}
    return drafting.drain(scene.group, members=members, **asked, force_all=False, **more)


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


ADA, STAGED_ADMIN = by("ada", "admin"), by("sam", "stage admin")


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
