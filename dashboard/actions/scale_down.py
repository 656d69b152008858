"""Tells members to leave, and what may be changed while they do (learners.md S4 to S9).

Every action is audited in the transaction that does it, which takes the next version of the group's
scale-downs; one that loses a race begins again. Redis is told after the database has it; when Redis
is away, or this process is killed in between, the next tick tells it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from django.db import IntegrityError

from assignment.coordinator import draining
from assignment.errors import InvalidInput
from assignment.settings import SCALE_DOWN_MAX_MS
from dashboard import coordinator
from dashboard.actions import groups, preview
from dashboard.actions.access import require
from dashboard.actions.roles import Action
from dashboard.coordinator import records
from dashboard.live import groups as live_groups
from dashboard.live.connection import StoreUnavailable
from dashboard.models import (
    AtDeadline,
    AuditSource,
    Group,
    Plan,
    PlanState,
    ScaleDown,
    ScaleDownState,
)
from dashboard.records import audit
from dashboard.records.audit import By

RACES_MAX = 20

T = TypeVar("T")
Json = Mapping[str, Any]

log = logging.getLogger(__name__)


class FromSettings:
    """The time limit is the group's own, scale_down_timeout_ms."""


FROM_SETTINGS = FromSettings()
Timeout = int | FromSettings | None  # ms; None: no limit


def limit_of(
    group: Group, timeout_ms: Timeout, at_deadline: AtDeadline | str = AtDeadline.FORCE
) -> int | None:
    """The limit in ms, None for none. Raises InvalidInput."""
    own = group.values.scale_down_timeout_ms
    limit = own if isinstance(timeout_ms, FromSettings) else timeout_ms
    _check_timeout(limit)
    if limit == 0 and AtDeadline(at_deadline) == AtDeadline.ABORT:
        raise InvalidInput("a limit of 0 ms that aborts would change nothing")
    return limit


class How(NamedTuple):
    """`limit` ms, None: none. `eager` None: as the group has it."""

    limit: int | None
    at_deadline: AtDeadline
    eager: bool | None


def how_of(
    group: Group, timeout_ms: Timeout, at_deadline: AtDeadline | str, eager: bool | None
) -> How:
    """Raises InvalidInput."""
    return How(limit_of(group, timeout_ms, at_deadline), AtDeadline(at_deadline), eager)


@audit.attempted("scale down")
def start(
    group: Group,
    by: By,
    *,
    percent: int | str | None = None,
    members: Sequence[str] | None = None,
    timeout_ms: Timeout = FROM_SETTINGS,
    at_deadline: AtDeadline | str = AtDeadline.FORCE,
    eager: bool | None = None,
    force_all: bool = False,
    plan: Plan | None = None,
) -> ScaleDown:
    """Tells members to leave. With both, `members` says who and `percent` is what was asked first.
    `eager`: sets the group's learn_partial_rebalance, from now on; None leaves it as it is. `plan`:
    the one that this is of.

    While one runs the same command is answered with it and changes nothing. Raises InvalidInput,
    Refused (another one runs, not stateful, all would leave), StoreUnavailable.
    """
    require(by, Action.SCALE_DOWN, group)
    if changes_eager := eager not in (None, group.values.learn_partial_rebalance):
        require(by, Action.CHANGE_SETTINGS, group)
    asked = preview.asked_of(percent, members)
    how = how_of(group, timeout_ms, at_deadline, eager)
    if running := group.running_scale_down:
        return same(running, asked, how, plan)
    view = preview.read(group)
    refused = preview.refusal(group)
    if not refused:
        leave, refused = preview.leavers(view, asked, force_all=force_all)
    if refused:
        raise groups.Refused(refused)

    def begin() -> ScaleDown:
        if running := group.running_scale_down:
            return same(running, asked, how, plan)
        _hold(plan)
        if changes_eager:
            groups.change_settings(group, {"learn_partial_rebalance": eager}, by)
        row = ScaleDown.objects.create(
            group=group,
            asked_at_ms=view.now_ms,
            actor=by.actor,
            source=AuditSource(by.source),
            reason=by.kept_reason,
            percent=asked.percent,
            live=len(preview.live_view(view).members),
            timeout_ms=how.limit,
            at_deadline=how.at_deadline,
            plan=plan,
            members={m: {"outcome": "", "at_ms": None, "forced": False} for m in leave},
        )
        if not leave:
            row.told_at_ms = row.ended_at_ms = view.now_ms
            row.state = ScaleDownState.DONE
            row.save()
        _audit(row, "scale down", by, after=_said(row))
        return row

    row = _racing(group.pk, begin)
    return _carry_out(row)


def _hold(plan: Plan | None) -> None:
    """Takes its row: whoever would end it meanwhile waits. Raises Refused."""
    if plan is None:
        return
    if not Plan.objects.filter(pk=plan.pk, state=PlanState.RUNNING).update(state=PlanState.RUNNING):
        raise groups.Refused("the plan has ended meanwhile")


@audit.attempted("extend scale down")
def extend(row: ScaleDown, timeout_ms: int | None, by: By) -> ScaleDown:
    """A longer limit, from the moment the members were told; None: no limit. Raises InvalidInput,
    Refused (it ended, or its time is up).
    """
    require(by, Action.SCALE_DOWN, row.group)
    _check_timeout(timeout_ms)

    def lengthen() -> ScaleDown:
        now = _running(row)
        before = now.timeout_ms
        if all(now.members[m]["forced"] for m in now.remaining()):
            raise groups.Refused("every member that is left is forced out already")
        if before is None or (timeout_ms is not None and timeout_ms <= before):
            raise InvalidInput(
                f"the limit is {_ms(before)} already, {_ms(timeout_ms)} is no longer"
            )
        now.timeout_ms = timeout_ms
        now.save(update_fields=["timeout_ms"])
        after = {"timeout_ms": timeout_ms}
        _audit(now, "extend scale down", by, before={"timeout_ms": before}, after=after)
        return now

    return _racing(row.group_id, lengthen)


@audit.attempted("force members")
def force(row: ScaleDown, member: str, by: By) -> ScaleDown:
    """This one goes at once (S5). Again: nothing changes. Raises InvalidInput, Refused (ended)."""
    require(by, Action.SCALE_DOWN, row.group)

    def hurry() -> ScaleDown:
        now = _running(row)
        if member not in now.members:
            raise InvalidInput(f"{member!r} was not told to leave in this scale-down")
        entry = now.members[member]
        if entry["outcome"]:
            raise groups.Refused(f"{member} is gone already ({entry['outcome']})")
        if not entry["forced"]:
            records.store_fact(draining.forced(records.fact_of(now), [member]))
            _audit(now, "force members", by, after={"members": [member]})
        return now

    return _carry_out(_racing(row.group_id, hurry))


@audit.attempted("abort scale down")
def abort(row: ScaleDown, by: By) -> ScaleDown:
    """S7: who is here stays, learners are dropped; again: nothing. Raises Refused when done."""
    require(by, Action.SCALE_DOWN, row.group)

    def cancel() -> ScaleDown | None:
        now = _found(row)
        if now.state == ScaleDownState.CANCELLED:
            return None
        if now.state == ScaleDownState.DONE:
            raise groups.Refused("it is done: every member is gone")
        records.store_fact(draining.cancelled(records.fact_of(now), _now_ms(now)))
        _audit(now, "abort scale down", by, after={"kept": now.remaining()})
        return now

    cancelled = _racing(row.group_id, cancel)
    return _found(row) if cancelled is None else _carry_out(cancelled)


# --- parts ----------------------------------------------------------------------------------------


def _racing(group_pk: int, change: Callable[[], T]) -> T:
    """`change` reads, checks and writes; when another process changed a scale-down meanwhile all of
    it is taken back, and it decides again from what is there then.
    """
    for _ in range(RACES_MAX):
        known = Group.objects.values_list("scale_downs_version", flat=True).get(pk=group_pk)
        # On PostgreSQL a second one that begins is met by its constraint first.
        with suppress(_Overtaken, IntegrityError), audit.atomic():
            result = change()
            if not records.take_version(group_pk, known, known + 1):
                raise _Overtaken
            return result
    raise groups.Refused("others change this group's scale-downs all the time: try again")


class _Overtaken(Exception):
    pass


def _found(row: ScaleDown) -> ScaleDown:
    return ScaleDown.objects.select_related("group").get(pk=row.pk)


def _running(row: ScaleDown) -> ScaleDown:
    """The record as it is now. Raises Refused when it ended."""
    row = _found(row)
    if row.state != ScaleDownState.RUNNING:
        raise groups.Refused(f"this scale-down is {row.state}: there is nothing to change")
    return row


def same(running: ScaleDown, asked: preview.Asked, how: How, plan: Plan | None = None) -> ScaleDown:
    """The running one, when it is what is asked for, and of the same plan. Raises Refused."""
    by_name = asked.members is not None
    goes_on = How(running.timeout_ms, AtDeadline(running.at_deadline), how.eager)
    eager = running.group.values.learn_partial_rebalance
    same = running.percent == asked.percent and how == goes_on and how.eager in (None, eager)
    same = same and (plan.pk if plan else None) in (None, running.plan_id)
    if same and (not by_name or set(asked.members or ()) == set(running.members)):
        return running
    raise groups.Refused(
        f"another scale-down runs (of {', '.join(sorted(running.members))}): cancel it first"
    )


def _check_timeout(timeout_ms: int | None) -> None:
    if timeout_ms is not None and not 0 <= timeout_ms <= SCALE_DOWN_MAX_MS:
        raise InvalidInput(f"timeout_ms {timeout_ms} is not within 0 and {SCALE_DOWN_MAX_MS}")


def _ms(timeout_ms: int | None) -> str:
    return "without end" if timeout_ms is None else f"{timeout_ms} ms"


def _carry_out(row: ScaleDown) -> ScaleDown:
    try:
        coordinator.advance(row.group, preview.read(row.group))
    except StoreUnavailable as error:
        log.warning("scale-down of group=%s waits for Redis: %s", row.group.name, error)
    row.refresh_from_db()
    return row


def _now_ms(row: ScaleDown) -> int:
    """Redis' clock; while it is away, the moment when it was told at the latest."""
    try:
        return live_groups.redis_now_ms()
    except StoreUnavailable:
        return row.told_at_ms or row.asked_at_ms


def _said(row: ScaleDown) -> Json:
    return {
        "members": row.live,
        "stay": row.stay,
        "leave": sorted(row.members),
        "percent": row.percent,
        "timeout_ms": row.timeout_ms,
        "at_deadline": row.at_deadline,
    }


def _audit(row: ScaleDown, action: str, by: By, *, after: Json, before: Json | None = None) -> None:
    audit.record(by, action, row.group, before=before, after={"scale_down": row.pk, **after})
