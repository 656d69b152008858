"""Records of targets, on their way from Redis to the database.

A target's record is written into the group's outbox by the script that stores the target, so that
none is lost in between and no database stands in the way of a failover.
"""

import base64
import json
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import transaction

from assignment.coordinator.outbox import MAPS, Run
from assignment.coordinator.setting_up import DECIDING
from assignment.types import Reason
from dashboard import models
from dashboard.live import groups as live_groups
from dashboard.records import audit
from dashboard.records.audit import By

BY_SCALE_DOWN = (Reason.SCALE_DOWN, Reason.FORCED, Reason.CANCELLED)

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
    while entries := live_groups.outbox(group.name):
        _note_lost(group, entries[0])
        for entry in entries:
            _keep_one(group, entry)
            live_groups.drop_from_outbox(group.name, entry.entry_id)


def _note_lost(group: models.Group, oldest: live_groups.OutboxEntry) -> None:
    """No database took them for so long that they made room for newer ones."""
    if not live_groups.records_lost(group.name):
        return
    with transaction.atomic():
        models.Group.objects.select_for_update().get(pk=group.pk)  # of two processes one notes it
        if lost := live_groups.records_lost(group.name):
            at_ms = int(oldest.entry_id.partition("-")[0])
            group.gaps.create(at_ms=at_ms, events_lost=0, records_lost=lost)
            live_groups.forget_lost(group.name, lost)
            log.error("history gap group=%s records_lost=%d", group.name, lost)


def _keep_one(group: models.Group, entry: live_groups.OutboxEntry) -> None:
    columns = json.loads(entry.record)
    requests = columns.pop("requests")
    for name in MAPS:
        columns[name] = columns[name] and base64.b64decode(columns[name])
    key = {"incarnation": entry.incarnation, "target_epoch": entry.target_epoch}
    with transaction.atomic():
        # It may have been set while no record could be kept, by a process that is gone since.
        known = models.Group.objects.filter(pk=group.pk, incarnation__lt=entry.incarnation)
        known.update(incarnation=entry.incarnation)
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
        return models.AuditEntry.objects.filter(group=row.group, action="change settings").first()
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
