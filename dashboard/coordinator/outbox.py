"""Records of targets, on their way from Redis to the database.

A target's record is written into the group's outbox by the script that stores the target, so that
none is lost in between and no database stands in the way of a failover.
"""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import DataError, transaction
from django.db.models import Q

from assignment.bounds import printable
from assignment.coordinator.outbox import Run, read
from assignment.coordinator.rounds import continued
from assignment.coordinator.setting_up import DECIDING
from assignment.errors import InvalidInput
from assignment.plausible import Counted, check_reached, reached
from assignment.scripts.group_read import Meta
from assignment.types import Epoch, Offset, Reason, read_as
from dashboard import models
from dashboard.coordinator.rebalances import read_earlier, why_of
from dashboard.live import groups as live_groups
from dashboard.live import proofs
from dashboard.records import audit, bulk
from dashboard.records.audit import By

BY_SCALE_DOWN = (Reason.SCALE_DOWN, Reason.FORCED, Reason.CANCELLED)

SEAL = "\n"  # between a record and the proof that it is ours; JSON in one line has none
SCALED_DOWN_MS = 60_000  # a scale-down's last rebalance may come so long after its end

_EARLIER = f"""
SELECT id, incarnation, target_epoch FROM {models.Rebalance._meta.db_table} WHERE group_id = %s
"""
EARLIER = f"""
{_EARLIER} AND incarnation = %s AND target_epoch = %s UNION
{_EARLIER} AND outcome = '{models.RebalanceOutcome.RUNNING}'
"""  # that very one, and those it ends; each by an index of its own

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


def keep(group: models.Group) -> bool:
    """The oldest, in order, each once. False: there were none."""
    entries = live_groups.outbox(group.name)
    if not entries:
        return False
    counted, lost = live_groups.counted_and_lost(group.name)
    if lost:
        _note_lost(group, entries[0])
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
    return True


def _note_lost(group: models.Group, oldest: live_groups.OutboxEntry) -> None:
    """No database took them for so long that they made room for newer ones."""
    with transaction.atomic():
        models.Group.locked(group.pk)  # of two processes one notes it
        counted, lost = live_groups.counted_and_lost(group.name)
        if lost:
            at_ms = _at_ms(oldest, counted.now_ms)
            group.gaps.create(at_ms=at_ms, events_lost=0, records_lost=lost)
            live_groups.forget_lost(group.name, lost)
            log.error("history gap group=%s records_lost=%d", group.name, lost)


def sealed(text: str, meta: Meta) -> str:
    """A record that this dashboard computed: for these, and the epochs of `meta`, people asked."""
    epoch = Epoch(meta.incarnation, meta.group_epoch)
    return f"{text}{SEAL}{proofs.prove(*_facts(text, meta.identity, epoch))}"


def _facts(text: str, identity: str, epoch: Epoch) -> tuple[str | int, ...]:
    return "target", identity, *epoch, hashlib.sha256(text.encode()).hexdigest()


def _read(
    group: models.Group, entry: live_groups.OutboxEntry, counted: Counted
) -> tuple[Epoch, dict[str, Any]]:
    """Checked: who may write to the group's keys may have written it. Raises InvalidInput.

    Nobody is behind what this dashboard did not seal: `is_ours` False.
    """
    epoch = read_as(Epoch, [entry.incarnation, entry.target_epoch], from_texts=True)
    top = max(group.incarnation, counted.incarnation)
    if not counted._replace(incarnation=top).has_target(*epoch):
        raise InvalidInput(f"incarnation {epoch.incarnation}, epoch {epoch.number} cannot be")
    text, _, seal = entry.record.partition(SEAL)
    is_ours = proofs.proven(seal) == _facts(text, group.identity, epoch)
    columns = read(text)
    check_reached("at_ms", columns["at_ms"], counted.now_ms)
    return epoch, {**columns, "is_ours": is_ours}


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
    requests, is_ours = columns.pop("requests"), columns.pop("is_ours")
    key = {"incarnation": epoch.incarnation, "target_epoch": epoch.number}
    with audit.atomic():
        # It may have been set while no record could be kept, by a process that is gone since.
        known = models.Group.objects.filter(pk=group.pk, incarnation__lt=epoch.incarnation)
        known.update(incarnation=epoch.incarnation)
        earlier = bulk.fetched(EARLIER, (group.pk, *epoch, group.pk))
        if epoch in {Epoch(*of) for _, *of in earlier}:
            return  # whoever stored it was killed before it could drop the entry
        if earlier:
            running = models.Rebalance.objects.filter(outcome=models.RebalanceOutcome.RUNNING)
            running.filter(pk__in=[pk for pk, *_ in earlier]).update(
                outcome=models.RebalanceOutcome.SUPERSEDED, finished_at_ms=columns["at_ms"]
            )
        row = models.Rebalance(group=group, actor=audit.AUTOMATIC, **key, **columns)
        answered, asked = [], None
        if is_ours:
            answered = list(group.requests.filter(pk__in=requests).order_by("created_at", "id"))
            asked = answered[-1] if answered else _behind(row)
        if asked is not None:
            row.planned, row.actor, row.reason = True, asked.actor, asked.reason
        if not answered:  # what a person asked for is a cause of its own
            _continue(group, row)
        row.save()
        for request in answered:
            _answer(group, row, request)


def _continue(group: models.Group, row: models.Rebalance) -> None:
    """Its rebalance goes on with it, if it is a later round of one."""
    causes = why_of(row.causes)
    row.first_id = continued(causes, row.moved, lambda: read_earlier(group))
    if row.first_id is not None:
        group.rebalances.filter(pk=row.first_id).update(ended_at_ms=None, gap_in_all_ms=None)


def _behind(row: models.Rebalance) -> models.AuditEntry | models.ScaleDown | None:
    """Who changed the settings or scaled down, when that is why: of a cause that only Redis tells,
    so what that person did must have been done then, and be behind no rebalance yet.
    """
    if row.cause in BY_SCALE_DOWN:
        lasted = Q(ended_at_ms=None) | Q(ended_at_ms__gte=row.at_ms - SCALED_DOWN_MS)
        return row.group.scale_downs.filter(lasted, asked_at_ms__lte=row.at_ms).first()
    if row.cause not in DECIDING:
        return None
    changed = row.group.audit.filter(action="change settings", result=audit.DONE).first()
    if changed is None:
        return None
    since_ms = round(changed.at.timestamp() * 1000)
    before = row.group.rebalances.filter(planned=True, cause__in=DECIDING)
    return None if before.filter(at_ms__gte=since_ms).exists() else changed


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
