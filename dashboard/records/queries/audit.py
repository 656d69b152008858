"""The audit list: who did what to what, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import QuerySet

from dashboard.models import AuditEntry
from dashboard.records.queries.pages import CSV_MAX, Page, narrowed, page_of

PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilters:
    actor: str = ""
    action: str = ""
    object: str = ""
    group: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    before: int | None = None


def found(filters: AuditFilters) -> QuerySet[AuditEntry]:
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


def page(filters: AuditFilters) -> Page[AuditEntry]:
    return page_of(found(filters), PAGE)


def every(filters: AuditFilters) -> Iterator[AuditEntry]:
    return found(filters)[:CSV_MAX].iterator(chunk_size=500)


def actions() -> list[str]:
    """Those that occurred, for the filter's choice."""
    names = AuditEntry.objects.order_by().values_list("action", flat=True).distinct()
    return sorted(names[:100])
