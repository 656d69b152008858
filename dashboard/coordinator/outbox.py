"""Records of targets, on their way from Redis to the database.

A target's record is written into the group's outbox by the script that stores the target, so that
none is lost in between and no database stands in the way of a failover.
"""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import DataError, transaction

from assignment.bounds import printable
from assignment.coordinator.outbox import Run, read
from assignment.coordinator.setting_up import DECIDING
from assignment.errors import InvalidInput
from assignment.plausible import Counted, check_reached, reached
from assignment.types import Epoch, Offset, Reason, read_as
from dashboard import models
from dashboard.live import groups as live_groups
from dashboard.records import audit
from dashboard.records.audit import By

BY_SCALE_DOWN = (Reason.SCALE_DOWN, Reason.FORCED, Reason.CANCELLED)

BATCHES_MAX = 50  # of the outbox in one tick: somebody may write faster than it is read

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """Who carries a rebalance out, and since when (monotonic)."""

    task_id: str = ""
    worker: str = ""
    began_s: float = field(default_factory=time.monotonic)

    def ended(self) -> Run:
        compute_ms = round((time.monotonic() - self.began_s) * 1000)
        return Run(self.worker, compute_ms, self.task_id)


def keep(group: models.Group) -> None:
    """In order, each once."""
    for _ in range(BATCHES_MAX):
        entries = live_groups.outbox(group.name)
        if not entries:
            return
        counted = live_groups.counted(group.name)
        _note_lost(group, entries[0], counted.now_ms)
        bad = []
        for entry in entries:
            try:
                _keep_one(group, *_read(group, entry, counted))
            except (InvalidInput, DataError) as error:
                bad.append((entry, error))
                continue
            live_groups.drop_from_outbox(group.name, entry.entry_id)
        if bad:
            _set_aside(group, bad, counted.now_ms)


def _note_lost(group: models.Group, oldest: live_groups.OutboxEntry, now_ms: int) -> None:
    """No database took them for so long that they made room for newer ones."""
    if not live_groups.records_lost(group.name):
        return
    with transaction.atomic():
        models.Group.objects.select_for_update().get(pk=group.pk)  # of two processes one notes it
        if lost := live_groups.records_lost(group.name):
            group.gaps.create(at_ms=_at_ms(oldest, now_ms), events_lost=0, records_lost=lost)
            live_groups.forget_lost(group.name, lost)
            log.error("history gap group=%s records_lost=%d", group.name, lost)


def _read(
    group: models.Group, entry: live_groups.OutboxEntry, counted: Counted
) -> tuple[Epoch, dict[str, Any]]:
    """Checked: who may write to the group's keys may have written it. Raises InvalidInput."""
    epoch = read_as(Epoch, [entry.incarnation, entry.target_epoch], from_texts=True)
    top = max(group.incarnation, counted.incarnation)
    if not counted._replace(incarnation=top).has_target(*epoch):
        raise InvalidInput(f"incarnation {epoch.incarnation}, epoch {epoch.number} cannot be")
    columns = read(entry.record)
    check_reached("at_ms", columns["at_ms"], counted.now_ms)
    return epoch, columns


def _set_aside(
    group: models.Group, bad: Sequence[tuple[live_groups.OutboxEntry, Exception]], now_ms: int
) -> None:
    """All at once, however many somebody wrote."""
    first, error = bad[0]
    why = printable(f"{len(bad)} records of targets cannot be kept and are dropped: {error}")
    log.error("%s group=%s: %s", audit.QUARANTINED, group.name, why)
    with audit.atomic():
        audit.record(audit.automatically(why), audit.QUARANTINED, group, result="found")
        group.gaps.create(at_ms=_at_ms(first, now_ms), events_lost=0, records_lost=len(bad))
    for entry, _ in bad:
        live_groups.drop_from_outbox(group.name, entry.entry_id)


def _at_ms(entry: live_groups.OutboxEntry, now_ms: int) -> int:
    return reached(Offset.parse(entry.entry_id).ms, now_ms)


def _keep_one(group: models.Group, epoch: Epoch, columns: dict[str, Any]) -> None:
    requests = columns.pop("requests")
    key = {"incarnation": epoch.incarnation, "target_epoch": epoch.number}
    with audit.atomic():
        # It may have been set while no record could be kept, by a process that is gone since.
        known = models.Group.objects.filter(pk=group.pk, incarnation__lt=epoch.incarnation)
        known.update(incarnation=epoch.incarnation)
        if group.rebalances.filter(**key).exists():
            return  # whoever stored it was killed before it could drop the entry
        group.rebalances.filter(outcome=models.RebalanceOutcome.RUNNING).update(
            outcome=models.RebalanceOutcome.SUPERSEDED, finished_at_ms=columns["at_ms"]
        )
        row = models.Rebalance(group=group, actor=audit.AUTOMATIC, **key, **columns)
        answered = list(group.requests.filter(pk__in=requests).order_by("created_at", "id"))
        asked = answered[-1] if answered else _behind(row)
        if asked is not None:
            row.planned, row.actor, row.reason = True, asked.actor, asked.reason
        row.save()
        for request in answered:
            _answer(group, row, request)


def _behind(row: models.Rebalance) -> models.AuditEntry | models.ScaleDown | None:
    """Who changed the settings or scaled down, when that is why."""
    if row.cause in BY_SCALE_DOWN:
        return models.ScaleDown.objects.filter(group=row.group, asked_at_ms__lte=row.at_ms).first()
    if row.cause in DECIDING.values():
        return row.group.audit.filter(action="change settings", result=audit.DONE).first()
    return None


def _answer(group: models.Group, row: models.Rebalance, request: models.RebalanceRequest) -> None:
    request.state, request.rebalance = models.RequestState.DONE, row
    request.save(update_fields=["state", "rebalance"])
    audit.record(
        By(request.actor, models.AuditSource.AUTOMATIC, request.reason),
        "rebalance",
        group,
        before={"owners": _counts(row.owners_before())},
        after={
            "target_epoch": row.target_epoch,
            "owners": _counts(row.owners()),
            "moved": row.moved,
        },
    )


def _counts(owners: Sequence[str | None]) -> dict[str, int]:
    """Partitions per member; nobody's are under "" ."""
    return Counter(owner or "" for owner in owners)
