"""What happens between a plan's steps: settings saved, rights taken, another run, a process that
stood still. The plan ends with the truth, and the group goes on.
"""

from typing import Any

import pytest

from assignment.coordinator import effects
from assignment.scripts.group_read import Purpose
from dashboard import coordinator
from dashboard.actions import coordination, drafting, groups, plans, scale_down
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Denied
from dashboard.coordinator import plans as ends
from dashboard.coordinator import records
from dashboard.live import groups as live_groups
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group, Plan, RebalanceRequest, ScaleDown
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.planning import ANN, BOB, EVE, approved, by, drain, proposed
from tests.dashboard.scaling import Scene
from tests.dashboard.scenes import settle

ADMIN = by("root", "admin")
FIRST = {"config_map": {"a": ["0-2"], "b": [3]}}


def strategy_plan(group: Group) -> Plan:
    return plans.run_now(group, drafting.strategy_change(group, "config", FIRST), ADMIN)


def fresh(plan: Plan) -> Plan:
    plan.refresh_from_db()
    return plan


def test_settings_that_are_saved_before_its_turn_end_a_plan_and_not_the_groups_rebalances(
    group: Group, agents: list[FakeAgent]
) -> None:
    plan = strategy_plan(group)
    group.refresh_from_db()
    groups.change_settings(group, {"strategy": "sticky", "strategy_parameters": {}}, ADMIN)
    agents.pop(0).leave()
    settle(group, agents)
    assert len(agents[0].held) == 4
    assert fresh(plan).state == "partly done"
    assert "other settings were saved" in plan.problem


def test_a_late_run_does_not_call_stale_what_another_one_stored(
    group: Group, agents: list[FakeAgent]
) -> None:
    plan = plans.run(approved(group), ANN)
    (known,) = records.read_requests(group, effects.ReadRequests())
    coordinator.rebalance(group.name)
    before = RebalanceRequest.objects.get(plan=plan)
    assert before.state == "done"
    records.refuse_request(group, effects.RefuseRequest(known.pk, "stale: late"))
    assert RebalanceRequest.objects.get(plan=plan) == before
    assert fresh(plan).state == "running"


def test_a_plan_that_cannot_be_built_any_more_holds_up_nobody(
    group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plans.run(approved(group), ANN)

    def unknown(*_: Any) -> None:
        raise TypeError("there is no setting 'gone'")

    with monkeypatch.context() as patch:
        patch.setattr(ends, "approved_of", unknown)
        agents.pop(0).leave()
        settle(group, agents)
    assert len(agents[0].held) == 4
    assert fresh(plan).state == "stale"
    assert "'gone'" in plan.problem


def test_who_may_not_change_settings_does_not_by_an_older_plan(scene: Scene) -> None:
    assert scene.group.values.learn_partial_rebalance
    draft = drain(scene, "S3")
    draft.inputs["eager"] = True
    plan = plans.propose(scene.group, draft, by("ann", "stage operator"))
    plan = plans.approve(plan, BOB, digest=plan.digest)
    groups.change_settings(scene.group, {"learn_partial_rebalance": False}, ADMIN)
    plan = Plan.objects.get(pk=plan.pk)
    with pytest.raises(Denied, match="change settings"):
        plans.run(plan, by("ann", "stage operator"))
    assert not ScaleDown.objects.exists()
    scene.group.refresh_from_db()
    assert scene.group.values.learn_partial_rebalance is False


def test_a_scale_down_does_not_begin_for_a_plan_that_has_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = scale_down.start

    def late(group: Group, *args: Any, plan: Plan, **more: Any) -> ScaleDown:
        ends.fail(plan, ends.NOT_BEGUN, EVE)
        return start(group, *args, plan=plan, **more)

    monkeypatch.setattr(scale_down, "start", late)
    with pytest.raises(Refused, match="the plan has ended meanwhile"):
        plans.run_now(scene.group, drain(scene, "S3"), EVE)
    assert not ScaleDown.objects.exists()
    assert Plan.objects.get().problem == ends.NOT_BEGUN


def test_plans_that_wait_are_bounded(
    group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "WAITING_MAX", 1)
    proposed(group)
    with pytest.raises(Refused, match="1 plans of this group wait already"):
        proposed(group)


def test_a_plan_is_stale_once_coordination_was_switched(
    group: Group, agents: list[FakeAgent]
) -> None:
    plan = plans.run(approved(group), ANN)
    coordination.switch(group, coordination.Coordination.CLIENT, ADMIN)
    coordinator.rebalance(group.name)
    assert fresh(plan).state == "stale"
    assert "coordination was switched" in plan.problem
    assert [len(agent.held) for agent in agents] == [2, 2]


def test_a_switch_whose_answer_was_lost_is_known_by_what_became_of_it(
    group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = coordination.switch

    def unanswered(*args: Any, **more: Any) -> None:
        switch(*args, **more)
        raise StoreUnavailable("Redis did not answer")

    epoch = live_groups.read(group.name, Purpose.LOOK).meta.mode_epoch
    monkeypatch.setattr(coordination, "switch", unanswered)
    with pytest.raises(StoreUnavailable):
        plans.run_now(group, drafting.switch(group, coordination.Coordination.CLIENT, epoch), ADMIN)
    plan = Plan.objects.get()
    assert plan.state == "running"
    Plan.objects.update(started_at_ms=0)
    tick()
    assert fresh(plan).state == "done"


def test_a_cancelled_change_of_strategy_says_that_its_settings_stay(
    group: Group, agents: list[FakeAgent]
) -> None:
    plan = plans.cancel(strategy_plan(group), ADMIN)
    group.refresh_from_db()
    assert group.values.strategy == "config"
    assert (plan.state, plan.problem) == ("partly done", "its settings are saved and stay")
