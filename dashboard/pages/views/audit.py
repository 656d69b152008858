"""The audit list."""

import json

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from dashboard.pages import texts
from dashboard.pages.views.common import Asked, Made, csv_file, show
from dashboard.records.queries import audit as audit_queries
from dashboard.records.queries.audit import AuditFilters


def _filters(asked: Asked) -> AuditFilters:
    return AuditFilters(
        actor=asked.text("actor"),
        action=asked.text("action"),
        object=asked.text("object"),
        group=asked.text("group"),
        from_ms=asked.moment("from"),
        to_ms=asked.moment("to"),
        before=asked.whole("before"),
    )


def audit(request: HttpRequest) -> HttpResponse:
    asked = Asked(request.GET)
    filters = _filters(asked)
    context = {
        "section": "audit",
        "asked": asked,
        "filters": filters,
        "page": audit_queries.page(filters),
        "actions": audit_queries.actions(),
    }
    return show(request, "audit", context, fragments=("audit",))


HEAD = ("at", "actor", "action", "object", "group", "reason", "before", "after", "source", "result")
MADE: dict[str, Made] = {
    "at": lambda row: texts.exact(row.at),
    "group": "group.name",
    "before": lambda row: row.before and json.dumps(row.before, sort_keys=True),
    "after": lambda row: row.after and json.dumps(row.after, sort_keys=True),
}


def audit_csv(request: HttpRequest) -> StreamingHttpResponse:
    return csv_file("audit", HEAD, audit_queries.every(_filters(Asked(request.GET))), MADE)
