"""One rebalance of one group: read, decide (assignment.coordinator), compare-and-set, record.

Level-triggered: without a group_epoch above the target_epoch nothing happens, so running it twice
is harmless.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from assignment.coordinator import (
    Nothing,
    Target,
    next_target,
    owners_before,
    settings_of,
)
from assignment.errors import InvalidInput
from assignment.scripts import GroupRead, Purpose
from dashboard.coordinator.setting_up import DECIDING
from dashboard.live import groups as live_groups
from dashboard.live import push, queue
from dashboard.models import (
    AuditEntry,
    AuditSource,
    Group,
    Rebalance,
    RebalanceOutcome,
    RebalanceRequest,
    RequestState,
    ScaleDown,
)
from dashboard.records import audit, ownership_map, replica_map

ROUNDS_MAX = 5  # triggers that keep coming wait for the next task
CAUSES_MAX = 200  # kept of those that gathered; a record stays readable
MANUAL = "manual"
REFUSED = "rebalance refused"  # in the audit: a strategy that does not fit
SCALE_DOWN = ("scale-down", "forced", "cancelled")  # of the script `mark`
# Hints that tell agents something but change nothing that a plan depends on.
NOT_A_CAUSE = frozenset(
    ("target", "released", "expired", "revoked", "incarnation", "settings", "redis wiped", "")
)
# The first of these that gathered names the rebalance: what people would say was the reason.
CAUSES = (
    MANUAL,
    *SCALE_DOWN,
    *DECIDING.values(),
    "partitions",
    "member lost",
    "leave",
    "leaving",
    "unable",
    "unserved",
    "join",
    "able",
    "ready",
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """Who carries it out."""

    task_id: str
    worker: str


def rebalance(group_name: str, task_id: str = "", worker: str = "") -> str:
    """What came of it, in words. Raises StoreUnavailable, Group.DoesNotExist."""
    result = "another run has it"
    for _ in range(ROUNDS_MAX):
        with queue.running(group_name) as mine:
            if not mine:
                queue.found_busy(group_name)
                return result
            queue.take_wanted(group_name)
            result = _once(group_name, Run(task_id, worker))
        if not queue.is_wanted(group_name):
            break
    return result


def _once(group_name: str, run: Run) -> str:
    group = Group.objects.get(name=group_name)
    began = time.monotonic()
    view = live_groups.read(group_name, Purpose.REBALANCE)
    if view.meta.settings is None:
        return "the group is not in Redis"  # the tick puts it there
    requests = list(group.requests.filter(state=RequestState.PENDING).order_by("created_at", "id"))
    due = _due(group, view, requests)
    if isinstance(due, Nothing):
        return due.reason
    row = _record(group, view, due, run)
    with transaction.atomic():  # the row first: a target without a record is worse than none
        refused = _store(row, view, due, requests)
        row.compute_ms = round((time.monotonic() - began) * 1000)
        row.save(update_fields=["compute_ms"])
        transaction.set_rollback(bool(refused))
    if refused:
        return refused
    push.push(group_name, "target")
    log.info(
        "rebalance group=%s epoch=%d cause=%s moved=%d kept=%d members=%d",
        group_name, row.target_epoch, row.cause, row.moved, row.kept, row.members,
    )  # fmt: skip
    return f"epoch {row.target_epoch}: {row.moved} moved, {row.kept} kept"


def _due(group: Group, view: GroupRead, requests: list[RebalanceRequest]) -> Target | Nothing:
    """By the last request, else by the group's own strategy. A strategy that does not fit the group
    as it is changes nothing: its request is refused (and left out), which is told in the audit.
    """
    if requests:
        try:
            return next_target(view, requests[-1].strategy, requests[-1].parameters)
        except InvalidInput as error:
            _refuse(group, requests, str(error))
            requests.clear()
    try:
        return next_target(view)
    except InvalidInput as error:
        _note_refusal(group, view, str(error))
        return Nothing(f"{settings_of(view).strategy} cannot be used: {error}")


def _refuse(group: Group, requests: Sequence[RebalanceRequest], why: str) -> None:
    with transaction.atomic():
        for request in requests:
            request.state = RequestState.REFUSED
            request.save(update_fields=["state"])
            audit.record(
                actor=request.actor,
                action=REFUSED,
                object=group.name,
                group=group,
                reason=why,
                after={"strategy": request.strategy, "request": request.pk},
                source=AuditSource.AUTOMATIC,
                result="refused",
            )
    log.warning("rebalance refused group=%s: %s", group.name, why)


def _note_refusal(group: Group, view: GroupRead, why: str) -> None:
    """Once for each state of the group: it is asked again every second."""
    after = {"strategy": settings_of(view).strategy, "group_epoch": view.meta.group_epoch}
    if AuditEntry.objects.filter(group=group, action=REFUSED, after=after).exists():
        return
    audit.record(
        actor=audit.AUTOMATIC,
        action=REFUSED,
        object=group.name,
        group=group,
        reason=why,
        after=after,
        source=AuditSource.AUTOMATIC,
        result="refused",
    )
    log.warning("rebalance refused group=%s: %s", group.name, why)


def _store(
    row: Rebalance, view: GroupRead, due: Target, requests: Sequence[RebalanceRequest]
) -> str:
    """Why Redis refused, then nothing may stay; empty when it is done."""
    group = row.group
    group.rebalances.filter(outcome=RebalanceOutcome.RUNNING).update(
        outcome=RebalanceOutcome.SUPERSEDED, finished_at_ms=view.now_ms
    )
    asked = requests[-1] if requests else _behind(row)
    if asked is not None:
        row.planned, row.actor, row.reason = True, asked.actor, asked.reason
    row.save()
    for request in requests:
        request.state, request.rebalance = RequestState.DONE, row
        request.save(update_fields=["state", "rebalance"])
        _audit(group, row, request)
    answer = live_groups.set_target(group.name, view, due.rows)
    return "" if answer.done else answer.why


def _behind(row: Rebalance) -> AuditEntry | ScaleDown | None:
    """Who changed the settings or scaled down, when that is why."""
    if row.cause in SCALE_DOWN:
        return ScaleDown.objects.filter(group=row.group).first()
    if row.cause in DECIDING.values():
        return AuditEntry.objects.filter(group=row.group, action="change settings").first()
    return None


def _record(group: Group, view: GroupRead, due: Target, run: Run) -> Rebalance:
    change, settings = due.change, settings_of(view)
    causes = _gathered(group.name, view)
    first_ms = min((cause.at_ms for cause in causes), default=view.now_ms)
    after = {p: member for member, row in due.rows.items() for p in row.active}
    before = owners_before(view)
    return Rebalance(
        group=group,
        target_epoch=due.group_epoch,
        at_ms=view.now_ms,
        cause=_named([c.reason for c in causes] or [c.kind for c in change.causes]),
        causes=[
            {"reason": c.reason, "member": c.member_id, "epoch": c.epoch, "at_ms": c.at_ms}
            for c in causes
        ]
        or [{"reason": c.kind, "member": c.subject} for c in change.causes],
        actor=audit.AUTOMATIC,
        strategy=change.strategy,
        members=len(change.loads),
        partitions=settings.partitions,
        kept=change.movement.kept,
        moved=change.movement.moves,
        avoidable=change.movement.avoidable_moves,
        balance_degree=change.balance_degree,
        max_minus_min=change.max_minus_min,
        score=change.score,
        stickiness=change.movement.stickiness,
        stickiness_best=change.movement.stickiness_best,
        detect_ms=max(0, view.now_ms - first_ms),
        celery_task_id=run.task_id,
        celery_worker=run.worker,
        target=ownership_map.pack([after.get(p) for p in settings.all_partitions()]),
        previous=ownership_map.pack([before.get(p) for p in settings.all_partitions()]),
        replicas=replica_map.pack(due.rows) if settings.stateful else None,
        learning=len(change.learning),
    )


def _gathered(group_name: str, view: GroupRead) -> list[live_groups.Hint]:
    """Every change of the group since the stored target, oldest first."""
    meta = view.meta
    return [
        h
        for h in live_groups.hints(group_name)
        if meta.target_epoch < h.epoch <= meta.group_epoch and h.reason not in NOT_A_CAUSE
    ][-CAUSES_MAX:]


def _named(reasons: Sequence[str]) -> str:
    return next((cause for cause in CAUSES if cause in reasons), reasons[0] if reasons else "")


def _audit(group: Group, row: Rebalance, request: RebalanceRequest) -> None:
    audit.record(
        actor=request.actor,
        action="rebalance",
        object=group.name,
        group=group,
        reason=request.reason,
        before={"owners": _counts(row.owners_before())},
        after={
            "target_epoch": row.target_epoch,
            "owners": _counts(row.owners()),
            "moved": row.moved,
        },
        source=AuditSource.AUTOMATIC,
    )


def _counts(owners: Sequence[str | None]) -> dict[str, int]:
    """Partitions per member; nobody's are under "" ."""
    counts: dict[str, int] = {}
    for owner in owners:
        counts[owner or ""] = counts.get(owner or "", 0) + 1
    return counts
