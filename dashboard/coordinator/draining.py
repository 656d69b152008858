"""Carries out scale-downs: the record says who is to leave, Redis what members were told.

Level-triggered: what is told follows from records alone, so it does not matter which process does
it, how often, or where one was killed (learners.md S4 to S9). A record is changed before Redis is
told, and read under the lock of its group's row while it is: an abort always has the last word.
"""

import logging
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Q

from assignment.scripts import GroupRead
from assignment.types import Drain
from dashboard.coordinator.asking import want_rebalance
from dashboard.coordinator.members import Went, how_they_went
from dashboard.live import groups as live_groups
from dashboard.models import (
    AtDeadline,
    AuditSource,
    Group,
    MemberEnd,
    MemberRecord,
    ScaleDown,
    ScaleDownState,
)
from dashboard.records import audit

CLEAN, FORCED, DIED, CANCELLED = "clean", "forced", "died", "cancelled"  # outcomes
OLDER_AT_MOST_MS = 60_000  # a view; Celery's task_time_limit. More: the clock of Redis was set back
RETURN_WITHIN_MS = 86_400_000  # one that was lost while it left and comes back still has to leave

log = logging.getLogger(__name__)


def advance(group: Group, view: GroupRead) -> bool:
    """Whether anything changed. Asked by every tick, after the members' stays were noted.

    The view is older than the records: whoever was told before has a record by now.
    """
    if not _is_due(_in_force(group, view), view):
        return False
    with transaction.atomic():
        Group.objects.select_for_update().get(pk=group.pk)
        rows = _in_force(group, view)  # again, now that they stay as they are
        row = next((r for r in rows if r.state == ScaleDownState.RUNNING), None)
        row = row or _reopened(rows, view)
        changed = row is not None and _went_on(row, view)
        marked = _tell(group, row, rows, view)
    if marked:
        want_rebalance(group.name)
    return changed or marked


def _in_force(group: Group, view: GroupRead) -> list[ScaleDown]:
    """The newest first."""
    lately = Q(state=ScaleDownState.DONE, ended_at_ms__gte=view.now_ms - RETURN_WITHIN_MS)
    return list(group.scale_downs.filter(Q(state=ScaleDownState.RUNNING) | lately))


def _is_due(rows: list[ScaleDown], view: GroupRead) -> bool:
    told = any(row.drain is not Drain.NONE for row in view.members.values())
    return told or any(r.state == ScaleDownState.RUNNING or _back(r, view) for r in rows)


def _back(row: ScaleDown, view: GroupRead) -> list[str]:
    """Members that were lost while they left and joined again under their name."""
    return [m for m, e in row.members.items() if e["outcome"] == DIED and _is_here(m, e, view)]


def _is_here(member: str, entry: Mapping[str, Any], view: GroupRead) -> bool:
    """By a view from after it was gone; one from before cannot know."""
    return member in view.members and not _is_from_before(view, entry["at_ms"])


def _is_from_before(view: GroupRead, at_ms: int) -> bool:
    return 0 <= at_ms - view.now_ms < OLDER_AT_MOST_MS


# --- what Redis is told ---------------------------------------------------------------------------


def _tell(group: Group, running: ScaleDown | None, rows: list[ScaleDown], view: GroupRead) -> bool:
    """Whether any member was told something new. The group's row is locked."""
    wanted, marked = _wanted(running, rows), False
    for drain in Drain:
        members = [
            m
            for m, row in sorted(view.members.items())
            if row.drain is not drain and wanted.get(m, Drain.NONE) is drain
        ]
        if members:
            done = live_groups.set_drain(group.name, drain, members).members
            marked = marked or bool(done)
            log.info("set_drain group=%s drain=%r members=%s", group.name, drain.value, done)
    if running is not None and running.told_at_ms is None and wanted.keys() & view.members.keys():
        running.told_at_ms = live_groups.redis_now_ms()
        running.save(update_fields=["told_at_ms"])
    return marked


def _wanted(running: ScaleDown | None, rows: list[ScaleDown]) -> dict[str, Drain]:
    """Who is to leave: the lost ones of records that ended, and who is left of the running one."""
    wanted = {
        member: Drain.LEAVING
        for row in rows
        if row.state == ScaleDownState.DONE
        for member, entry in row.members.items()
        if entry["outcome"] == DIED
    }
    if running is not None:
        wanted |= {
            m: Drain.FORCED if running.members[m]["forced"] else Drain.LEAVING
            for m in running.remaining()
        }
    return wanted


# --- what became of them --------------------------------------------------------------------------


def _went_on(row: ScaleDown, view: GroupRead) -> bool:
    """Whether the record changed; saved then."""
    before = row.ended_at_ms, {member: dict(entry) for member, entry in row.members.items()}
    if not _is_from_before(view, row.asked_at_ms):
        _note_outcomes(row, view)
    if row.remaining():
        _keep_deadline(row, view.now_ms)
    elif row.state == ScaleDownState.RUNNING:
        _end(row)
    if (row.ended_at_ms, row.members) == before:
        return False
    row.save()
    return True


def _note_outcomes(row: ScaleDown, view: GroupRead) -> None:
    """Who is gone, and how; one that came back under its name has not gone after all.

    Where nothing tells how it went it is lost, but not while Redis may just have been wiped.
    """
    gone = [m for m in row.remaining() if m not in view.members]
    ends = how_they_went(row.group) if gone else {}
    quiet = view.now_ms < view.meta.quiet_until_ms
    for member in (m for m in gone if m in ends or not quiet):
        entry, went = row.members[member], ends.get(member, Went(view.now_ms, MemberEnd.LOST))
        entry["at_ms"] = max(went.at_ms, row.asked_at_ms)
        entry["outcome"] = _outcome(entry, went)
        if entry["outcome"] == FORCED:
            MemberRecord.objects.filter(
                group=row.group_id, member_id=member, end=went.end, left_at_ms=went.at_ms
            ).update(end=MemberEnd.FORCED)
    for member, entry in row.members.items():
        if entry["outcome"] and _is_here(member, entry, view):
            entry |= {"outcome": "", "at_ms": None}


def _outcome(entry: Mapping[str, Any], went: Went) -> str:
    """Who was sent a SIGTERM meanwhile waited for no learner either (S4)."""
    if went.end == MemberEnd.LOST:
        return DIED
    return FORCED if entry["forced"] or went.signalled else CLEAN


def _keep_deadline(row: ScaleDown, now_ms: int) -> None:
    """S5: when the time is up those who are left go at once, or everything is given back."""
    told_at_ms = now_ms if row.told_at_ms is None else row.told_at_ms
    if row.timeout_ms is None or now_ms - told_at_ms < row.timeout_ms:
        return
    waiting = [m for m in row.remaining() if not row.members[m]["forced"]]
    if row.at_deadline == AtDeadline.ABORT:
        cancel(row, now_ms)
        _audit(row, "abort scale down", "its time is up", {"kept": waiting})
    elif waiting:
        for member in waiting:
            row.members[member]["forced"] = True
        _audit(row, "force members", "their time is up", {"members": waiting})


def cancel(row: ScaleDown, now_ms: int) -> None:
    """S7, not saved yet: whoever is still here stays."""
    for member in row.remaining():
        row.members[member] |= {"outcome": CANCELLED, "at_ms": now_ms}
    row.state, row.ended_at_ms = ScaleDownState.CANCELLED, now_ms


def _end(row: ScaleDown) -> None:
    row.state = ScaleDownState.DONE
    row.ended_at_ms = max((entry["at_ms"] for entry in row.members.values()), default=None)
    outcomes = {member: entry["outcome"] for member, entry in sorted(row.members.items())}
    _audit(row, "scale down ended", "every member is gone", {"outcomes": outcomes})


def _reopened(rows: list[ScaleDown], view: GroupRead) -> ScaleDown | None:
    """The newest record with a lost member that is back goes on. To be asked when none runs."""
    for row in rows:
        if back := _back(row, view):
            for member in back:
                row.members[member] |= {"outcome": "", "at_ms": None}
            row.state, row.ended_at_ms = ScaleDownState.RUNNING, None
            row.save()
            _audit(row, "scale down goes on", "a lost member is back", {"members": back})
            return row
    return None


def _audit(row: ScaleDown, action: str, reason: str, after: Mapping[str, Any]) -> None:
    audit.record(
        actor=audit.AUTOMATIC,
        action=action,
        object=row.group.name,
        group=row.group,
        reason=reason,
        after={"scale_down": row.pk, **after},
        source=AuditSource.AUTOMATIC,
    )
