"""A group whose records or incarnation are damaged: what is found, and mending it."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from django.db import transaction
from django.db.models import F

from assignment.bounds import printable
from assignment.coordinator import effects
from assignment.coordinator.incarnation import CLAIMED_MAX
from assignment.coordinator.repair import (
    COORDINATION,
    Finding,
    Mend,
    Stored,
    findings,
    found_incarnations,
    renumbered,
    renumbered_fence,
)
from assignment.errors import InvalidInput
from assignment.scripts import recovery
from assignment.scripts.agent_side import SnapshotRecord, record_of, record_values
from assignment.scripts.dashboard_side import configure, request_rebalance
from assignment.types import INCARNATION_STEP, Coordination, Reason
from dashboard import coordinator
from dashboard.actions.access import require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.coordinator import mirror
from dashboard.live import groups as live_groups
from dashboard.live import queue
from dashboard.live import stored as live_stored
from dashboard.live.scripts import run
from dashboard.models import Group
from dashboard.records import audit, corrections
from dashboard.records.audit import By

AUDITED_MAX = 100  # findings in one entry
LOOK_WAIT_S = 60.0  # longer than any takes


def look(group: Group) -> tuple[Finding, ...]:
    """Changes nothing. Raises StoreUnavailable."""
    return _findings(group, _stored(group))


def _findings(group: Group, stored: Stored) -> tuple[Finding, ...]:
    return findings(stored, _incarnations(group), corrections.kept(group, stored.now_ms))


@audit.attempted("accept incarnation")
def accept_incarnation(group: Group, incarnation: int, by: By) -> None:
    """Agents really saw that one, because database and Redis came back from a backup: the next tick
    goes on above it. Audited. Raises Refused and InvalidInput.
    """
    require(by, Action.REPAIR, group)
    if not group.incarnation < incarnation < CLAIMED_MAX:
        limits = f"above {group.incarnation}, the database's, and below {CLAIMED_MAX}"
        raise InvalidInput(f"incarnation {incarnation} is not {limits}")
    with audit.atomic():
        rows = Group.objects.filter(pk=group.pk, incarnation=group.incarnation)
        if not rows.update(incarnation=incarnation):
            raise Refused(f"the incarnation of {group.name!r} was raised meanwhile: ask again")
        before, after = {"incarnation": group.incarnation}, {"incarnation": incarnation}
        audit.record(by, "accept incarnation", group, before=before, after=after)
    group.incarnation = incarnation
    coordinator.look(group.name)


@audit.attempted("repair group")
def mend(group: Group, by: By) -> tuple[Finding, ...]:
    """What was found, mended now; audited. Raises Refused and StoreUnavailable. Ended in between
    it can be asked for again.
    """
    require(by, Action.REPAIR, group)
    stored = _stored(group)
    found = _findings(group, stored)
    mends = {finding.mend for finding in found}
    if Mend.RENUMBER in mends:
        _refuse_while_somebody_lives(group)
    if not found:
        return found
    told = [_legible(finding) for finding in found[:AUDITED_MAX]]
    audit.record(by, "repair group", group, before={"findings": told, "count": len(found)})
    is_built_anew = bool(mends & {Mend.RENUMBER, Mend.REBUILD})
    rows = [one for one in found if not (is_built_anew and one.key in COORDINATION)]
    for (kind, key), of_key in groupby(sorted(rows), lambda one: (one.mend, one.key)):
        _mend_rows(group, stored, kind, key, [finding.name for finding in of_key])
    if is_built_anew:
        with queue.nobody_looks(group.name, LOOK_WAIT_S):  # it would be taken for a wiped one
            _build_anew(group, lowers=Mend.RENUMBER in mends)
    else:
        run(request_rebalance(Reason.MANUAL), group.name)
    coordinator.look(group.name)
    return found


def _legible(finding: Finding) -> dict[str, str]:
    return {name: printable(value) for name, value in finding._asdict().items()}


def _build_anew(group: Group, *, lowers: bool) -> None:
    if lowers:
        _renumber(group)
    _rebuild(group)


def _stored(group: Group) -> Stored:
    return live_stored.read(group.name, _partitions(group))


def _partitions(group: Group) -> list[str]:
    return list(map(str, group.values.all_partitions()))


def _incarnations(group: Group) -> set[int]:
    """Those of the database's records."""
    known = set(group.rebalances.order_by().values_list("incarnation", flat=True).distinct())
    fences = group.tenures.order_by().values_list("fence", flat=True).distinct()
    known |= {fence // INCARNATION_STEP for fence in fences.iterator()}
    for records in group.mirror.exclude(snapshot=None).values_list("snapshot", flat=True):
        known |= {record_of(one).fence // INCARNATION_STEP for one in records or ()}
    return known | {group.incarnation, group.mode_incarnation}


def _refuse_while_somebody_lives(group: Group) -> None:
    """Agents remember the highest incarnation that they ever saw."""
    now_ms = live_groups.redis_now_ms(group.name)
    session_ms = group.values.session_timeout_ms
    beats = _stored(group).beats.items()
    if living := sorted(member for member, beat in beats if now_ms - beat <= session_ms):
        raise Refused(f"stop the agents of {group.name!r} first: {', '.join(living[:10])}")


def _mend_rows(group: Group, stored: Stored, kind: Mend, key: str, names: Sequence[str]) -> None:
    """Agents go on beside it: only what still is as it was found."""
    match kind:
        case Mend.EVICT:
            for name in names:
                live_stored.forget_member(group.name, name, stored)
        case Mend.CORRECT:
            so_far = live_groups.counted(group.name)
            corrections.correct(group, key, names, so_far.now_ms, so_far.event_seq)
        case Mend.FORGET | Mend.MIRROR:
            done = [name for name in names if live_stored.forget(group.name, key, name, stored)]
            if kind is Mend.MIRROR:
                live_stored.put_missing(group.name, key, _mirrored(group, key, done))


def _mirrored(group: Group, key: str, names: Collection[str]) -> dict[str, str]:
    """As the database has them; a partition that it does not have begins at its start."""
    found: dict[str, str] = {}
    now_ms = live_groups.redis_now_ms(group.name)
    for row in group.mirror.all():
        partition = f"{group.stream}:{row.number}"
        if partition in names or "" in names:
            values = {"offsets": row.offset, "applied": f"{row.total} {now_ms}"}
            values |= {"snapshots": json.dumps(row.snapshot)} if row.snapshot else {}
            found |= {partition: values[key]} if key in values else {}
    return found


def _rebuild(group: Group) -> None:
    """As after a wipe: nothing is granted for a lease, and then under a higher incarnation. Offsets
    and snapshots are there.
    """
    settings = group.values
    live_stored.forget_coordination(group.name, _partitions(group))
    run(recovery.hold(settings.lease_ms), group.name)
    kept = mirror.read(group, effects.ReadMirror())
    run(recovery.resume(kept.target_epoch, kept.event_seq, kept.target), group.name)
    call = configure(
        settings,
        Reason.WIPED,
        rebalance_due=True,
        identity=group.identity,
        over_epoch=0,
        coordination=Coordination(group.coordination),
    )
    run(call, group.name)


# --- incarnations ---------------------------------------------------------------------------------


def _renumber(group: Group) -> None:
    """First in Redis, which is read again when this ends in between."""
    known = _incarnations(group) | found_incarnations(_stored(group))
    numbers = renumbered(known, group.incarnation)
    rows = _stored(group).rows.get("snapshots", {})
    live_stored.put(group.name, "snapshots", {p: _lowered(raw, numbers) for p, raw in rows.items()})
    with transaction.atomic():
        Group.locked(group.pk)  # who stores history has it, or waits
        group.maps.all().delete()  # they have the fences as they were
        for old, new in numbers.items():
            first, step = old * INCARNATION_STEP, (old - new) * INCARNATION_STEP
            tenures = group.tenures.filter(fence__gte=first, fence__lt=first + INCARNATION_STEP)
            tenures.update(fence=F("fence") - step)
            group.rebalances.filter(incarnation=old).update(incarnation=new)
        for row in group.mirror.exclude(snapshot=None):
            row.snapshot = [_lowered_values(one, numbers) for one in row.snapshot or ()]
            row.save(update_fields=["snapshot"])
        highest = max([*numbers.values(), *(n for n in known if n not in numbers)])
        group.incarnation = highest
        group.mode_incarnation = numbers.get(group.mode_incarnation, group.mode_incarnation)
        group.save(update_fields=["incarnation", "mode_incarnation"])


def _lowered(raw: bytes, numbers: Mapping[int, int]) -> str:
    return json.dumps([_lowered_values(one, numbers) for one in json.loads(raw)])


def _lowered_values(values: Mapping[str, Any], numbers: Mapping[int, int]) -> dict[str, str]:
    record: SnapshotRecord = record_of(values)
    return record_values(replace(record, fence=renumbered_fence(record.fence, numbers)))
