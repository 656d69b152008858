"""What people ask for in one step: each drafts a plan and runs it at once, or proposes it when that
takes another's approval. So a change is in history and audit as the plan that it is, whichever way
it was asked for.

What answers with a Plan says by its state what became of it; the others answer with a Plan only
when it waits for somebody's approval.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from assignment.types import Coordination
from dashboard.actions import coordination, drafting, groups, plans, preview, scale_down
from dashboard.actions.coordination import Switched
from dashboard.actions.drafting import Draft
from dashboard.actions.scale_down import FROM_SETTINGS, Timeout
from dashboard.models import AtDeadline, Group, Plan, PlanKind, PlanState, ScaleDown
from dashboard.records import audit
from dashboard.records.audit import By

DRAFTS_MAX = 5  # a group that changes faster than it can be read is left alone
NOT_PLANNED = "only a change of strategy can be proposed: of these settings none is that"


def carry_out(group: Group, draft: Draft, by: By) -> Plan:
    """Raises what `plans.run_now` and `plans.propose` raise."""
    if plans.may_at_once(group, draft.kind, by, draft.inputs):
        return plans.run_now(group, draft, by)
    plan = plans.propose(group, draft, by)
    return plans.run(plan, by) if plan.state == PlanState.APPROVED else plan


def _newest(group: Group, draft: Callable[[], Draft], by: By) -> Plan:
    """Of what nobody has looked at: drafted again when the group changed in between."""
    for _ in range(DRAFTS_MAX - 1):
        with suppress(plans.GroupChanged):
            return carry_out(group, draft(), by)
    return carry_out(group, draft(), by)


@audit.attempted("rebalance")
def rebalance(
    group: Group, by: By, *, strategy: str, parameters: Mapping[str, Any] | None = None
) -> Plan:
    """By `strategy`, this once. Raises InvalidInput, Denied, Refused, StoreUnavailable."""
    plans.require_to_ask(group, PlanKind.REBALANCE, by)
    return _newest(group, lambda: drafting.rebalance(group, strategy, parameters), by)


@audit.attempted("scale down")
def drain(
    group: Group,
    by: By,
    *,
    percent: int | str | None = None,
    members: Sequence[str] | None = None,
    timeout_ms: Timeout = FROM_SETTINGS,
    at_deadline: AtDeadline | str = AtDeadline.FORCE,
    eager: bool | None = None,
    force_all: bool = False,
) -> ScaleDown | Plan:
    """While one runs the same command is answered with it and changes nothing. Raises InvalidInput,
    Denied, Refused, StoreUnavailable.
    """
    plans.require_to_ask(group, PlanKind.SCALE_DOWN, by)
    asked = preview.asked_of(percent, members)
    how = scale_down.how_of(group, timeout_ms, at_deadline, eager)
    if running := group.running_scale_down:
        return scale_down.same(running, asked, how)
    draft = partial(drafting.drain, group, asked, how, force_all=force_all)
    plan = _newest(group, draft, by)
    return plan if plan.started_at_ms is None else plan.scale_down


@audit.attempted("switch coordination")
def switch(
    group: Group, mode: Coordination, by: By, *, expected: int | None = None
) -> Switched | Plan:
    """`expected`: the mode epoch that was looked at. What is so already is no plan. Raises Denied,
    Refused, StoreUnavailable.
    """
    plans.require_to_ask(group, PlanKind.COORDINATION, by)
    before = preview.read(group).meta
    seen = before.mode_epoch if expected is None else expected
    if before.coordination is mode:
        return coordination.switch(group, mode, by, expected=seen)
    plan = _newest(group, lambda: drafting.switch(group, mode, seen), by)
    if plan.started_at_ms is None:
        return plan
    return Switched(before, preview.read(group).meta)


@audit.attempted("change settings")
def change_settings(group: Group, changes: Mapping[str, Any], by: By) -> Group | Plan:
    """What is saved together with a strategy is saved by its plan. Raises InvalidInput, Denied,
    Refused, StoreUnavailable.
    """
    plans.require_to_ask(group, PlanKind.STRATEGY, by)
    if not drafting.changes_strategy(group, changes):
        return groups.change_settings(group, dict(changes), by)
    plan = _newest(group, lambda: drafting.settings_change(group, changes), by)
    return plan if plan.started_at_ms is None else plan.group


@audit.attempted("propose plan")
def propose_settings(group: Group, changes: Mapping[str, Any], by: By) -> Plan:
    """Raises InvalidInput, Denied, Refused (none of them is of the strategy), StoreUnavailable."""
    plans.require_to_ask(group, PlanKind.STRATEGY, by)
    if not drafting.changes_strategy(group, changes):
        raise groups.Refused(NOT_PLANNED)
    return plans.propose(group, drafting.settings_change(group, changes), by)
