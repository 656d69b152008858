"""Plans: from proposing to what became of each move, and how they end."""

from dataclasses import replace

import pytest
from django.db import IntegrityError

from dashboard import coordinator
from dashboard.actions import plans
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Denied, NeedsApproval
from dashboard.models import AuditEntry, Group, Plan, Rebalance, RebalanceRequest
from dashboard.records.planned import packed
from dashboard.records.queries import plans as queries
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.planning import (
    ANN,
    BOB,
    EVE,
    approved,
    averagely,
    by,
    outcomes,
    packed_of,
    proposed,
    uneven,
)
from tests.dashboard.scenes import settle


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
