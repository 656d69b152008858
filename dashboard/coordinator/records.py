"""The records that count for a decision: read as the rules' values, written as they ask.

Nothing is decided here. What may be changed by several at once is compared and set.
"""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from django.db.models import Q

from assignment.coordinator import effects, facts
from assignment.coordinator.effects import ModeKept
from assignment.errors import InvalidInput
from assignment.invariants import FaultKind
from assignment.types import START, Coordination, Epoch, Partition
from dashboard import models
from dashboard.coordinator import ownership, plans
from dashboard.coordinator.mirror import offset_of
from dashboard.live import groups as live_groups
from dashboard.live import proofs
from dashboard.records import audit, bulk
from dashboard.records.audit import By

SWITCHED = "switch coordination"
NOBODY_ASKED = "found in Redis, and nobody asked a dashboard for it"
FOUND = f"{audit.REFUSED}: {NOBODY_ASKED}; put back"
WITHOUT_DATABASE = "by command, without a database: that command's output says who and why"
REFUSED = "rebalance refused"  # in the audit: a strategy that does not fit

OPEN = models.RequestState.PENDING, models.RequestState.TAKEN
NOT_LIFTED = facts.Lifted(0, None)
FAULTS_MAX = 20  # kept of a group: one cause can break a thing for every partition

log = logging.getLogger(__name__)


# --- Redis that forgot ----------------------------------------------------------------------------


def keep_incarnation(group: models.Group, effect: effects.KeepIncarnation) -> bool:
    higher = effect.incarnation
    if higher <= group.incarnation:
        return False
    rows = models.Group.objects.filter(pk=group.pk, incarnation__lt=higher)
    is_new = bool(rows.update(incarnation=higher))
    group.incarnation = higher
    return is_new


def mode_of(group: models.Group) -> Epoch:
    return Epoch(group.mode_incarnation, group.mode_epoch)


def ask_switch(group: models.Group, mode: Coordination, by: By) -> models.AskedSwitch:
    """On record before Redis is told: who asked is known here, however that ends."""
    return group.asked_switches.create(
        note=secrets.token_urlsafe(24),
        coordination=mode.value,
        actor=by.actor,
        source=by.source,
        reason=by.reason,
        address=by.address,
    )


def keep_mode(group: models.Group, effect: effects.KeepMode) -> ModeKept:
    with audit.atomic():
        row = models.Group.locked(group.pk)
        if effect.mode <= mode_of(row):
            return ModeKept.KNOWN
        by = _who_switched(row, effect)
        before = {"coordination": row.coordination, "mode_epoch": row.mode_epoch}
        if by is None and row.coordination != effect.coordination:
            audit.tried(audit.automatically(NOBODY_ASKED), SWITCHED, row, result=FOUND)
            return ModeKept.UNKNOWN
        row.coordination = effect.coordination.value
        row.mode_incarnation, row.mode_epoch = effect.mode
        row.save(update_fields=["coordination", "mode_incarnation", "mode_epoch"])
        if by is None:
            return ModeKept.KNOWN
        after = {"coordination": row.coordination, "mode_epoch": row.mode_epoch}
        audit.record(by, SWITCHED, row, before=before, after=after)
    return ModeKept.SWITCHED


def _who_switched(row: models.Group, effect: effects.KeepMode) -> By | None:
    """None: nobody who is known here."""
    mode = effect.coordination.value
    asked = row.asked_switches.filter(note=effect.note, coordination=mode).first()
    if asked is not None:
        asked.delete()
        return By(asked.actor, asked.source, asked.reason, address=asked.address)
    match proofs.proven(effect.note):
        case (identity, of, int(incarnation), int(number)):
            is_new = mode_of(row) < Epoch(incarnation, number) <= effect.mode
            if (identity, of) == (row.identity, mode) and is_new:
                return By(audit.AUTOMATIC, models.AuditSource.COMMAND, WITHOUT_DATABASE)
    return None


def keep_loss(group: models.Group, effect: effects.KeepLoss) -> None:
    """What only Redis held is gone, and that is said loudly."""
    behind = _behind(group, effect)
    found = {str(partition): _gone(partition, row, effect) for partition, row in behind.items()}
    counts = [one["destroyed"] for one in found.values()]
    destroyed = None if None in counts else sum(counts)
    number = "unknown how many" if destroyed is None else f"at least {destroyed}"
    put_back = f"{len(effect.moved)} of {group.partitions} partitions put back"
    result = f"{put_back}; {number} events destroyed" if found else "nothing is known to be gone"
    early = sum(lifted.early for lifted in effect.lifted.values())
    action = audit.WIPED if effect.wiped else audit.WRITES_LOST
    with audit.atomic():
        if effect.wiped:
            _end_history(group)
        audit.record(
            audit.automatically(audit.LOSSES[action]),
            action,
            group,
            before={str(partition): _known(row) for partition, row in behind.items()},
            after={"destroyed": destroyed, "came_too_early": early, "partitions": found},
            result=result,
        )
    level = logging.ERROR if found else logging.WARNING
    log.log(level, "%s group=%s: %s, came too early: %d", action, group.name, result, early)


def _behind(
    group: models.Group, effect: effects.KeepLoss
) -> dict[Partition, models.PartitionMirror]:
    """Partitions of which Redis has less than the mirror, unless the last loss said so already."""
    last = None if effect.wiped else audit.losses(group).first()
    said = (last.before if last else None) or {}
    rows = {Partition(group.stream, row.number): row for row in group.mirror.all()}
    return {
        partition: row
        for partition, row in rows.items()
        if (offset_of(row.offset) or START) > effect.offsets.get(partition, START)
        and said.get(str(partition)) != _known(row)
    }


def _known(row: models.PartitionMirror) -> dict[str, Any]:
    return {"offset": row.offset, "total": row.total}


def _end_history(group: models.Group) -> None:
    at_ms = live_groups.redis_now_ms(group.name)
    group.events_cursor = live_groups.FIRST_ENTRY
    group.save(update_fields=["events_cursor"])
    models.HistoryGap.objects.create(group=group, at_ms=at_ms, events_lost=None)
    group.tenures.filter(ended_ms=None).update(ended_ms=at_ms, end=None)
    ownership.begin_anew(group, at_ms)


def _gone(
    partition: Partition, row: models.PartitionMirror, effect: effects.KeepLoss
) -> dict[str, Any]:
    """From where a partition goes on; how many events that its stream lacks have effects still
    (`total`), and how many had them at least: as many as the mirror knew, which is some seconds
    old. None: events were not counted from the same start, or not at all.
    """
    record, applied = effect.moved.get(partition), effect.applied.get(partition)
    offset = record.offset if record else effect.offsets.get(partition, START)
    there = 0 if effect.wiped else effect.lifted.get(partition, NOT_LIFTED).events
    if there is None or (applied.total if applied else 0) > there:
        return {"offset": str(offset), "total": 0, "destroyed": None}
    kept = max(there, record.total if record else 0)
    destroyed = max(0, row.total - kept)
    return {"offset": str(offset), "total": kept - there, "destroyed": destroyed}


def keep_faults(group: models.Group, effect: effects.KeepFaults) -> None:
    found = [list(fault) for fault in sorted(effect.faults)[:FAULTS_MAX]]
    if found == group.faults:
        return
    new: dict[str, list[str]] = {}
    for kind, text in found:
        if [kind, text] not in group.faults:
            new.setdefault(kind, []).append(text)
    for kind, texts in new.items():
        _note_fault(group, kind, texts)
    group.faults = found
    group.save(update_fields=["faults"])


def _note_fault(group: models.Group, kind: str, texts: Sequence[str]) -> None:
    """One entry for all of a kind; a member that says something else every second is counted."""
    action = audit.QUARANTINED if kind == FaultKind.UNREADABLE else "invariant broken"
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    by = audit.automatically(texts[0] + more)
    if audit.found_first(by, action, group, kind):
        log.error("%s group=%s kind=%s: %s", action, group.name, kind, by.reason)


# --- members --------------------------------------------------------------------------------------


STAYS = f"""
SELECT member_id, joined_at_ms, host, version, spark_application_id
FROM {models.MemberRecord._meta.db_table}
WHERE group_id = %s AND left_at_ms IS NULL ORDER BY joined_at_ms DESC
"""


def read_stays(group: models.Group, effect: effects.ReadStays) -> tuple[facts.Stay, ...]:
    """Each look asks this."""
    found = bulk.fetched(STAYS, (group.pk,))
    return tuple(
        facts.Stay(member_id=member, joined_at_ms=at_ms, host=host, version=version, application=of)
        for member, at_ms, host, version, of in found
    )


def keep_stays(group: models.Group, effect: effects.KeepStays) -> None:
    models.MemberRecord.objects.bulk_create(
        [_row_of(group, **asdict(stay)) for stay in effect.stays],
        update_conflicts=True,
        unique_fields=["group", "member_id", "joined_at_ms"],
        update_fields=["left_at_ms", "end", "host", "version", "spark_application_id"],
    )


def _row_of(group: models.Group, application: str, **columns: Any) -> models.MemberRecord:
    return models.MemberRecord(group=group, spark_application_id=application, **columns)


def keep_forced(group: models.Group, effect: effects.KeepForced) -> None:
    group.member_records.filter(member_id=effect.member, left_at_ms=effect.left_at_ms).update(
        end=facts.StayEnd.FORCED
    )


# --- scale-downs ----------------------------------------------------------------------------------


def read_scale_downs(group: models.Group, effect: effects.ReadScaleDowns) -> facts.ScaleDowns:
    """The version first: of two changes at once the later one is refused."""
    version = models.Group.objects.values_list("scale_downs_version", flat=True).get(pk=group.pk)
    lately = Q(state=models.ScaleDownState.DONE, ended_at_ms__gte=effect.ended_since_ms)
    rows = group.scale_downs.filter(Q(state=models.ScaleDownState.RUNNING) | lately)
    return facts.ScaleDowns(version=version, records=tuple(map(fact_of, rows)))


def fact_of(row: models.ScaleDown) -> facts.ScaleDown:
    return msgspec.convert(row, facts.ScaleDown, from_attributes=True)


def keep_scale_downs(group: models.Group, effect: effects.KeepScaleDowns) -> bool:
    with audit.atomic():
        if not take_version(group.pk, effect.version, effect.next_version):
            return False
        for fact in effect.changed:
            store_fact(fact)
        for note in effect.notes:
            by = audit.automatically(note.reason)
            audit.record(by, note.action, group, after=dict(note.after))
    return True


def take_version(group_pk: int, known: int, following: int) -> bool:
    """Compare-and-set; to be asked in the transaction that changes a scale-down."""
    rows = models.Group.objects.filter(pk=group_pk, scale_downs_version=known)
    return bool(rows.update(scale_downs_version=following))


def store_fact(fact: facts.ScaleDown) -> None:
    models.ScaleDown.objects.filter(pk=fact.pk).update(
        told_at_ms=fact.told_at_ms,
        state=fact.state.value,
        ended_at_ms=fact.ended_at_ms,
        members={m: asdict(leaver) for m, leaver in fact.members.items()},
    )


# --- rebalances -----------------------------------------------------------------------------------


def read_requests(group: models.Group, effect: effects.ReadRequests) -> tuple[facts.Request, ...]:
    rows = group.requests.filter(state__in=OPEN).select_related("plan")
    sound = list[facts.Request]()
    for row in rows.order_by("created_at", "id"):
        try:
            sound.append(_request_of(row, group))
        except (InvalidInput, TypeError, KeyError, ValueError) as error:  # it holds up nobody
            refuse_request(group, effects.RefuseRequest(row.pk, str(error)))
    return tuple(sound)


def _request_of(row: models.RebalanceRequest, group: models.Group) -> facts.Request:
    """Raises what building of an old or damaged plan raises."""
    if row.plan is None:
        raise InvalidInput("it was asked for without a plan, by an older version: ask again")
    if not row.plan.is_whole:
        raise InvalidInput(plans.NOT_WHOLE)
    return facts.Request(pk=row.pk, approved=plans.approved_of(row.plan.content, group))


def refuse_request(group: models.Group, effect: effects.RefuseRequest) -> None:
    with audit.atomic():
        still = group.requests.filter(pk=effect.request, state__in=OPEN)
        if not still.update(state=models.RequestState.REFUSED):
            return  # answered or cancelled meanwhile
        request = group.requests.get(pk=effect.request)
        if request.plan is not None:
            plans.refused(request.plan, effect.why)
        by = By(request.actor, models.AuditSource.AUTOMATIC, effect.why)
        after = {"strategy": request.strategy, "request": request.pk}
        audit.record(by, REFUSED, group, after=after, result="refused")
    log.warning("rebalance refused group=%s: %s", group.name, effect.why)


def keep_refusal(group: models.Group, effect: effects.KeepRefusal) -> None:
    after = {"strategy": effect.strategy, "group_epoch": effect.group_epoch}
    if group.audit.filter(action=REFUSED, after=after).exists():
        return
    audit.record(audit.automatically(effect.why), REFUSED, group, after=after, result="refused")
    log.warning("rebalance refused group=%s: %s", group.name, effect.why)
