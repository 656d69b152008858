"""Rows as they were at a moment: what came later is taken off them. They are shown, never saved."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q

from dashboard.live.attention import BY_WORD
from dashboard.models import (
    AuditEntry,
    Group,
    MemberRecord,
    Occurrence,
    Plan,
    PlanState,
    Rebalance,
    RebalanceOutcome,
    ScaleDown,
    ScaleDownState,
    Tenure,
)
from dashboard.records import audit
from dashboard.records.queries import attention
from dashboard.records.queries.attention import Shown
from dashboard.records.queries.members import LEAVING, Command
from dashboard.records.queries.rebalances import PHASES

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHANGES_MAX = 1_000  # of a group's settings that are taken back
OF_ITS_END = ("outcome", "finished_at_ms", "total_ms", "ownership_gap_ms")


def _is_later(of_row_ms: int | None, at_ms: int) -> bool:
    return of_row_ms is not None and of_row_ms > at_ms


def tenure(row: Tenure, at_ms: int) -> Tenure:
    if _is_later(row.ended_ms, at_ms):
        row.ended_ms = row.end = None
    if _is_later(row.refused_at_ms, at_ms):
        row.refused_at_ms = None
    return row


def stay(row: MemberRecord, at_ms: int) -> MemberRecord:
    if _is_later(row.left_at_ms, at_ms):
        row.left_at_ms = row.end = None
    return row


def rebalance(row: Rebalance, at_ms: int) -> Rebalance:
    """A round, and what its first round says of the whole."""
    if row.finished_at_ms is None or row.finished_at_ms > at_ms:
        for name in (*OF_ITS_END, *(f"{phase}_ms" for phase in PHASES)):
            setattr(row, name, None)
        row.outcome = RebalanceOutcome.RUNNING
    if _is_later(row.ended_at_ms, at_ms):
        row.ended_at_ms = row.gap_in_all_ms = None
    return row


def scale_down(row: ScaleDown, at_ms: int) -> ScaleDown:
    if _is_later(row.ended_at_ms, at_ms):
        row.ended_at_ms, row.state = None, ScaleDownState.RUNNING
    if _is_later(row.told_at_ms, at_ms):
        row.told_at_ms = None
    for entry in row.members.values():
        if _is_later(entry["at_ms"], at_ms):
            entry |= {"outcome": "", "at_ms": None}
    return row


def command(found: Command, at_ms: int) -> dict[str, Any]:
    """What is to be replaced of it: nothing when it was over."""
    changed: dict[str, Any] = {}
    if _is_later(found.accepted_ms, at_ms):
        changed["accepted_ms"] = None
    if _is_later(found.done_ms, at_ms):
        word = LEAVING if found.rebalance is None else RebalanceOutcome.RUNNING
        changed |= {"done_ms": None, "outcome": word}
    return changed


def plans(group: Group, rows: Sequence[Plan], at_ms: int) -> list[Plan]:
    """A row says when it was decided last: that one was approved before that, the audit says."""
    entries = group.audit.filter(action="approve plan", result=audit.DONE, at__lte=_moment(at_ms))
    approved = {*entries.filter(object__in=map(str, rows)).values_list("object", flat=True)}
    return [_plan(row, at_ms, is_approved=str(row) in approved) for row in rows]


def _plan(row: Plan, at_ms: int, *, is_approved: bool) -> Plan:
    if row.ended_at_ms is not None and row.ended_at_ms <= at_ms:
        return row
    row.ended_at_ms, row.problem, row.moved = None, "", None
    if row.started_at_ms is not None and row.started_at_ms <= at_ms:
        row.state = PlanState.RUNNING
    else:
        row.state = PlanState.APPROVED if is_approved else PlanState.PROPOSED
        row.started_at_ms, row.run_by = None, ""
    if row.decided_at_ms is None or row.decided_at_ms > at_ms:
        row.decided_by = row.approved_by if is_approved else ""
    return row


# --- what needed attention ------------------------------------------------------------------------


def attention_at(group: Group, at_ms: int) -> tuple[list[Shown], list[Shown]]:
    """(what needed some at that moment, what was over), each the latest first. What is said of it
    is what was said last.
    """
    rows = group.occurrences.filter(raised_at_ms__lte=at_ms)
    goes_on = Q(ended_at_ms=None) | Q(ended_at_ms__gt=at_ms)
    over = rows.exclude(goes_on)[: attention.PAST_SHOWN]
    return _known(rows.filter(goes_on), at_ms), _known(over, at_ms)


def _known(rows: Any, at_ms: int) -> list[Shown]:
    return [Shown(_seen(row, at_ms), BY_WORD[row.rule]) for row in rows if row.rule in BY_WORD]


def _seen(row: Occurrence, at_ms: int) -> Occurrence:
    if _is_later(row.ended_at_ms, at_ms):
        row.ended_at_ms = None
    if _is_later(row.acknowledged_at_ms, at_ms):
        row.acknowledged_at_ms, row.acknowledged_by, row.note = None, "", ""
    return row


# --- what was set ---------------------------------------------------------------------------------


def values(
    group: Group, action: str, now: Mapping[str, Any], at_ms: int
) -> Mapping[str, Any] | None:
    """`now` as it was then: each later change in the audit is taken back, the newest first. None:
    nobody can know, for changes were too many, or their entries are kept no longer.
    """
    kept = AuditEntry.objects.order_by("seq").values_list("seq", "at").first()
    if kept is not None and kept[0] > 1 and kept[1] > _moment(at_ms):
        return None
    later = group.audit.filter(action=action, result=audit.DONE, at__gt=_moment(at_ms))
    changes = list(later.order_by("-seq").values_list("before", flat=True)[: CHANGES_MAX + 1])
    if len(changes) > CHANGES_MAX:
        return None
    found = dict(now)
    for before in changes:
        if isinstance(before, dict):
            found |= {name: value for name, value in before.items() if name in found}
    return found


def _moment(at_ms: int) -> datetime:
    """The end of that millisecond: what came within it has been; entries tell microseconds."""
    return EPOCH + timedelta(milliseconds=at_ms, microseconds=999)
