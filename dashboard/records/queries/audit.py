"""The audit list: who did what to what, and why."""

from datetime import UTC, datetime

from django.db.models import QuerySet

from dashboard.models import AuditEntry
from dashboard.records.queries.pages import Filters, narrowed


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
