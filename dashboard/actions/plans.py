"""Plans: proposed by one, approved by another, run as they are; or made and run in one step by who
may do it at once.

Each step is one conditional update from the states that it may begin in, so of two who take it at
once one does. One plan of a group runs at a time, under the right that its approval gives
(beginning.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from django.db import IntegrityError

from assignment.coordinator.approved import Base, why_stale
from assignment.errors import InvalidInput
from dashboard.actions import approval_rules, preview, scale_down
from dashboard.actions.access import require
from dashboard.actions.beginning import BEGIN
from dashboard.actions.drafting import Draft
from dashboard.actions.groups import Refused
from dashboard.actions.roles import EVERYTHING, Action
from dashboard.coordinator import plans as ends
from dashboard.live import groups as live_groups
from dashboard.models import (
    Group,
    Plan,
    PlanKind,
    PlanState,
    RebalanceRequest,
    RequestState,
)
from dashboard.records import audit
from dashboard.records.audit import By
from dashboard.records.planned import WAITING, packed
from dashboard.records.queries.plans import now_ms

HOUR_MS = 3_600_000
EXPIRY_MS = 24 * HOUR_MS
EXPIRY_MAX_MS = 14 * 24 * HOUR_MS  # a group is another one after two weeks
WAITING_MAX = 100  # of one group, to be decided or run
NO_INPUTS: Mapping[str, Any] = {}
RIGHTS = {
    PlanKind.REBALANCE: Action.REBALANCE,
    PlanKind.SCALE_DOWN: Action.SCALE_DOWN,
    PlanKind.STRATEGY: Action.CHANGE_SETTINGS,
    PlanKind.COORDINATION: Action.CHANGE_SETTINGS,
}


class GroupChanged(Refused):
    """Since the plan was drafted; nothing was begun."""


def right_of(plan: Plan) -> Action:
    return RIGHTS[PlanKind(plan.kind)]


# --- made -----------------------------------------------------------------------------------------


@audit.attempted("propose plan")
def propose(group: Group, draft: Draft, by: By, *, expiry_ms: int = EXPIRY_MS) -> Plan:
    """To be approved by somebody else, or by a rule of theirs at once. Raises InvalidInput, Denied,
    Refused: too many wait.
    """
    require_to_ask(group, draft.kind, by, draft.inputs)
    if not HOUR_MS <= expiry_ms <= EXPIRY_MAX_MS:
        raise InvalidInput(f"expiry {expiry_ms} ms is not within {HOUR_MS} and {EXPIRY_MAX_MS}")
    if group.plans.filter(state__in=WAITING).count() >= WAITING_MAX:
        raise Refused(f"{WAITING_MAX} plans of this group wait already: decide or cancel some")
    with audit.atomic():
        plan = _make(group, draft, by, now_ms() + expiry_ms, needs_approval=True)
        _step(plan, by, "propose plan", (PlanState.DRAFT,), PlanState.PROPOSED)
        _approve_by_rule(plan)
    return plan


def _approve_by_rule(plan: Plan) -> None:
    met = approval_rules.first_met(plan)
    if met is not None:
        how = {"approved_by": met.author, "approved_by_rule": met.rule, "rule_values": met.values}
        by, waiting = audit.automatically(met.why), (PlanState.PROPOSED,)
        _step(plan, by, "approve plan", waiting, PlanState.APPROVED, **how, **_decided(by))


@audit.attempted("run plan")
def run_now(group: Group, draft: Draft, by: By) -> Plan:
    """Made and run in one step. Raises InvalidInput, Denied, NeedsApproval, Refused (the group
    changed meanwhile, another plan runs), StoreUnavailable.
    """
    for action in _actions(group, draft.kind, draft.inputs):
        require(by, action, group)
    at_ms, why = _stands(group, draft.base)
    if why:
        raise GroupChanged(f"{why}: look at it again")
    expires_at_ms = now_ms() + HOUR_MS
    make = partial(_make, group, draft, by, expires_at_ms, needs_approval=False)
    return _start(group, make, by, (PlanState.DRAFT,), at_ms)


def may_at_once(group: Group, kind: PlanKind, by: By, inputs: Mapping[str, Any]) -> bool:
    """Whether it takes nobody's approval."""
    return all(by.rights.may(action, group.name) for action in _actions(group, kind, inputs))


def require_to_ask(
    group: Group, kind: PlanKind, by: By, inputs: Mapping[str, Any] = NO_INPUTS
) -> None:
    """That one may do it, be it with another's approval. Raises Denied."""
    for action in _actions(group, kind, inputs):
        if not by.rights.may_look(action, group.name):
            require(by, action, group)


def _actions(group: Group, kind: PlanKind, inputs: Mapping[str, Any]) -> list[Action]:
    """All that it takes to do at once what the plan says, as the group is now."""
    eager = inputs.get("eager")
    if eager in (None, group.values.learn_partial_rebalance):
        return [RIGHTS[kind]]
    return [RIGHTS[kind], Action.CHANGE_SETTINGS]


def _make(group: Group, draft: Draft, by: By, expires_at_ms: int, *, needs_approval: bool) -> Plan:
    content = draft.content(group, by, expires_at_ms=expires_at_ms, needs_approval=needs_approval)
    text, digest = packed(content)
    plan: Plan = group.plans.create(
        kind=content.kind,
        packed=text,
        digest=digest,
        proposed_by=content.proposed_by,
        proposed_at_ms=content.proposed_at_ms,
        source=by.source,
        reason=content.reason,
        expires_at_ms=expires_at_ms,
        needs_approval=needs_approval,
    )
    return plan


# --- decided --------------------------------------------------------------------------------------


@audit.attempted("approve plan")
def approve(plan: Plan, by: By, *, digest: str) -> Plan:
    """`digest`: of what was looked at. Raises Denied, Refused (it is one's own, was decided or
    expired, is stale, or is not what was looked at), StoreUnavailable.
    """
    require(by, Action.APPROVE, plan.group)
    if by.actor == plan.proposed_by:
        raise Refused("a plan is approved by somebody else than who proposed it")
    _check_whole(plan, digest)
    _check_current(plan, by)
    with audit.atomic():
        _step(
            plan,
            by,
            "approve plan",
            (PlanState.PROPOSED,),
            PlanState.APPROVED,
            approved_by=by.actor,
            **_decided(by),
        )
    return plan


@audit.attempted("reject plan")
def reject(plan: Plan, by: By) -> Plan:
    """Raises Denied, Refused."""
    require(by, Action.APPROVE, plan.group)
    with audit.atomic():
        _step(plan, by, "reject plan", (PlanState.PROPOSED,), PlanState.REJECTED, **_over(by))
    return plan


@audit.attempted("cancel plan")
def cancel(plan: Plan, by: By) -> Plan:
    """By who proposed it, and by who may do at once what it does. While it runs: a scale-down is
    aborted; a target that is published stays, but nobody waits for it any more. Raises Denied,
    Refused, StoreUnavailable.
    """
    if by.actor != plan.proposed_by or not by.rights.may_look(right_of(plan), plan.group.name):
        require(by, right_of(plan), plan.group)
    plan.refresh_from_db()
    if plan.state == PlanState.RUNNING:
        return _stop(plan, by)
    with audit.atomic():
        waiting = (PlanState.PROPOSED, PlanState.APPROVED)
        _step(plan, by, "cancel plan", waiting, PlanState.CANCELLED, **_over(by))
    return plan


def _stop(plan: Plan, by: By) -> Plan:
    if plan.kind == PlanKind.SCALE_DOWN and hasattr(plan, "scale_down"):
        scale_down.abort(plan.scale_down, replace(by, rights=EVERYTHING))
        plan.refresh_from_db()  # ended by the tick, with what became of its moves
        return plan
    requests = RebalanceRequest.objects.filter(plan=plan)
    with audit.atomic():
        if requests.filter(state=RequestState.PENDING).update(state=RequestState.REFUSED):
            kept = plan.kind == PlanKind.STRATEGY
            state = PlanState.PARTLY_DONE if kept else PlanState.CANCELLED
            more = {"problem": "its settings are saved and stay"} if kept else {}
            _step(plan, by, "cancel plan", (PlanState.RUNNING,), state, **_over(by), **more)
        elif requests.filter(state=RequestState.DONE).exists():
            audit.record(by, "cancel plan", plan.group, object=str(plan))
            Plan.objects.filter(pk=plan.pk).update(**_decided(by))
            ends.finish(plan, live_groups.redis_now_ms(), PlanState.CANCELLED)
        else:
            raise Refused("it is just being carried out: try again in a moment")
    return plan


# --- run ------------------------------------------------------------------------------------------


@audit.attempted("run plan")
def run(plan: Plan, by: By) -> Plan:
    """An approved one, by who may propose such or do it at once. Raises Denied, Refused (it is not
    approved, expired, is stale, another one runs), StoreUnavailable.
    """
    _check_whole(plan, plan.digest)
    require_to_ask(plan.group, PlanKind(plan.kind), by, plan.content.inputs)
    if plan.state != PlanState.APPROVED:
        raise Refused(f"a plan that is {plan.state} cannot be run")
    at_ms = _check_current(plan, by)
    return _start(plan.group, lambda: plan, by, (PlanState.APPROVED,), at_ms)


def _start(
    group: Group, made: Callable[[], Plan], by: By, frm: tuple[PlanState, ...], at_ms: int
) -> Plan:
    """The database's constraint lets one plan of a group run."""
    ends.settle(group)
    try:
        with audit.atomic():
            plan = made()
            how = {"run_by": by.actor, "started_at_ms": at_ms}
            _step(plan, by, "run plan", frm, PlanState.RUNNING, **how)
            told = BEGIN[PlanKind(plan.kind)](plan, by)
    except IntegrityError as error:
        raise Refused("another plan of this group runs: wait until it has ended") from error
    told(replace(by, rights=EVERYTHING))
    plan.refresh_from_db()
    return plan


# --- parts ----------------------------------------------------------------------------------------


def _check_whole(plan: Plan, digest: str) -> None:
    if not plan.is_whole or plan.digest != digest or plan.content.group != plan.group.identity:
        raise Refused(ends.NOT_WHOLE)


def _check_current(plan: Plan, by: By) -> int:
    """Redis' time. A plan whose time is up expires by this, and one that is stale becomes so."""
    if now_ms() >= plan.expires_at_ms:
        with audit.atomic():
            ends.expire(plan)
        raise Refused("the plan has expired: make another")
    at_ms, why = _stands(plan.group, plan.content.base)
    if why:
        with audit.atomic():
            ends.become_stale(plan, why, by)
        raise Refused(f"the plan is stale: {why}")
    return at_ms


def _stands(group: Group, base: Mapping[str, int]) -> tuple[int, str]:
    """Redis' time, and why a plan made for these epochs is stale, else ""."""
    view = preview.read(group)
    why = why_stale(Base(*(base[name] for name in Base._fields)), view)
    if not why and view.meta.mode_epoch != base["mode_epoch"]:
        mode = f"{view.meta.mode_epoch} ({view.meta.coordination})"
        why = f"the mode epoch is {mode}, not {base['mode_epoch']} as when the plan was made"
    return view.now_ms, why


def _step(
    plan: Plan,
    by: By,
    action: str,
    frm: tuple[PlanState, ...],
    state: PlanState,
    **columns: Any,
) -> None:
    """To be asked in `audit.atomic`. Raises Refused: it is in another state by now."""
    before = plan.state
    rows = Plan.objects.filter(pk=plan.pk, state__in=frm)
    if not rows.update(state=state, **columns):
        plan.refresh_from_db()
        raise Refused(f"the plan is {plan.state} by now")
    plan.refresh_from_db()
    after = {"state": plan.state, "kind": plan.kind, "sha256": plan.digest}
    audit.record(by, action, plan.group, object=str(plan), before={"state": before}, after=after)


def _decided(by: By) -> dict[str, Any]:
    return {"decided_by": by.actor, "decided_at_ms": now_ms(), "decision": by.kept_reason}


def _over(by: By) -> dict[str, Any]:
    return _decided(by) | {"ended_at_ms": now_ms()}
