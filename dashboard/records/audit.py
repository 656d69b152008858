"""Who did what to what, and why: one row per action. Rows are only ever added."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet

from dashboard.models import AuditEntry, AuditSource, Group
from dashboard.records.queries.pages import Filters, narrowed

REASON_MAX = 500
AUTOMATIC = "evenkeel"  # the actor when nobody asked
WIPED, WRITES_LOST = "redis wiped", "writes lost"
QUARANTINED = "quarantined"  # what a member wrote and nobody can read is left out
LOSSES = {  # action -> reason
    WIPED: "this Redis does not know the group any more",
    WRITES_LOST: "Redis was restarted or replaced: its last writes may be gone",
}


@dataclass(frozen=True, slots=True)
class By:
    """Who did it, by which way, and why."""

    actor: str
    source: AuditSource | str
    reason: str = ""


def automatically(reason: str) -> By:
    return By(AUTOMATIC, AuditSource.AUTOMATIC, reason)


def record(
    by: By,
    action: str,
    group: Group | None = None,
    *,
    object: str = "",
    before: Any = None,
    after: Any = None,
    result: str = "done",
) -> AuditEntry:
    """`object` is the group itself when it is not named. `before` and `after` are JSON values; of
    changed settings only those that changed.
    """
    return AuditEntry.objects.create(
        actor=by.actor,
        action=action,
        object=object or str(group or ""),
        group=group,
        reason=by.reason[:REASON_MAX],
        before=before,
        after=after,
        source=AuditSource(by.source),
        result=result,
    )


def losses(group: Group) -> QuerySet[AuditEntry]:
    """What its Redis forgot, the newest first."""
    return group.audit.filter(action__in=LOSSES)


# --- the list -------------------------------------------------------------------------------------


def found(filters: Filters) -> QuerySet[AuditEntry]:
    return narrowed(
        AuditEntry.objects.select_related("group").order_by("-id"),
        actor__icontains=filters.actor,
        action=filters.action,
        object__icontains=filters.object,
        group__name=filters.group,
        at__gte=_moment(filters.from_ms),
        at__lt=_moment(filters.to_ms),
        id__lt=filters.before,
    )


def _moment(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)


def actions() -> list[str]:
    """Those that occurred, for the filter's choice."""
    names = AuditEntry.objects.order_by().values_list("action", flat=True).distinct()
    return sorted(names[:100])
