"""Records of targets, on their way from Redis to the database.

A target's record is written into the group's outbox by the script that stores the target, so that
none is lost in between and no database stands in the way of a failover.
"""

import base64
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db import transaction

from assignment import maps
from assignment.coordinator.facts import TargetRecord
from assignment.coordinator.setting_up import DECIDING
from assignment.types import Partition, Reason
from dashboard import models
from dashboard.live import groups as live_groups
from dashboard.records import audit
from dashboard.records.audit import By

OF_RECORD = ("at_ms", "cause", "partitions", "detect_ms")
OF_CHANGE = ("strategy", "balance_degree", "max_minus_min", "score")
OF_MOVEMENT = ("kept", "stickiness", "stickiness_best")
MAPS = ("target", "previous", "replicas")  # packed
BY_SCALE_DOWN = (Reason.SCALE_DOWN, Reason.FORCED, Reason.CANCELLED)


@dataclass(frozen=True, slots=True)
class Run:
    """Who carries a rebalance out, and since when (monotonic)."""

    task_id: str = ""
    worker: str = ""
    began_s: float = field(default_factory=time.monotonic)


def text_of(record: TargetRecord, run: Run) -> str:
    """The columns of the Rebalance that it becomes, and `requests` that it answers."""
    change, movement = record.change, record.change.movement
    after = {p: member for member, row in record.rows.items() for p in row.active}
    packed = {
        "target": _packed(after, record.partitions),
        "previous": _packed(record.before, record.partitions),
        "replicas": maps.pack_replicas(record.rows) if record.stateful else None,
    }
    columns = {
        **{name: getattr(record, name) for name in OF_RECORD},
        **{name: getattr(change, name) for name in OF_CHANGE},
        **{name: getattr(movement, name) for name in OF_MOVEMENT},
        "causes": [
            {name: v for name, v in cause._asdict().items() if v is not None}
            for cause in record.causes
        ],
        "members": len(change.loads),
        "moved": movement.moves,
        "avoidable": movement.avoidable_moves,
        "compute_ms": round((time.monotonic() - run.began_s) * 1000),
        "celery_task_id": run.task_id,
        "celery_worker": run.worker,
        "learning": len(change.learning),
    }
    texts = {n: None if m is None else base64.b64encode(m).decode() for n, m in packed.items()}
    return json.dumps({**columns, **texts, "requests": record.requests}, separators=(",", ":"))


def _packed(owners: Mapping[Partition, str], partitions: int) -> bytes:
    by_number = {p.number: member for p, member in owners.items()}
    return maps.pack_owners([by_number.get(number) for number in range(partitions)])


def keep(group: models.Group) -> None:
    """In order, each once."""
    while entries := live_groups.outbox(group.name):
        for entry in entries:
            _keep_one(group, entry)
            live_groups.drop_from_outbox(group.name, entry.entry_id)


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
