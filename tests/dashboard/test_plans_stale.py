"""A plan runs once, over the group that it was made for, or not at all."""

from typing import Any

import pytest

from assignment.coordinator import rebalance as rebalancing
from assignment.coordinator.effects import SetTarget
from assignment.coordinator.effects import run as run_steps
from assignment.scripts.dashboard_side import request_rebalance
from assignment.scripts.group_read import Purpose
from assignment.types import Coordination, Reason
from dashboard import coordinator
from dashboard.actions import beginning, plans
from dashboard.actions.groups import Refused
from dashboard.coordinator import carrying
from dashboard.live import groups as live_groups
from dashboard.live.scripts import run
from dashboard.models import Group, Plan, Rebalance, RebalanceRequest
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.planning import ANN, EVE, approved, outcomes, uneven
from tests.dashboard.scenes import settle

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
    monkeypatch.setattr(beginning, "_ask", lambda group: None)
    plans.run(approved(group), ANN)
    before = published()
    tick()
    assert published() == before + 1
    assert coordinator.rebalance(group.name).startswith("epoch")
