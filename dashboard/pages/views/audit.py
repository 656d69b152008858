"""The audit list."""

import json

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from dashboard.pages import texts
from dashboard.pages.views import base
from dashboard.records.queries import audit as audit_queries
from dashboard.records.queries.audit import AuditFilters


def _filters(asked: base.Asked) -> AuditFilters:
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
    asked = base.Asked(request.GET)
    filters = _filters(asked)
    context = {
        "section": "audit",
        "asked": asked,
        "filters": filters,
        "page": audit_queries.page(filters),
        "actions": audit_queries.actions(),
    }
    return base.show(request, "audit", context, fragments=("audit",))


HEAD = ("at", "actor", "action", "object", "group", "reason", "before", "after", "source", "result")
MADE: dict[str, base.Made] = {
    "at": lambda row: texts.exact(row.at),
    "group": "group.name",
    "before": lambda row: row.before and json.dumps(row.before, sort_keys=True),
    "after": lambda row: row.after and json.dumps(row.after, sort_keys=True),
}


def audit_csv(request: HttpRequest) -> StreamingHttpResponse:
    return base.csv_file(
        "audit", HEAD, audit_queries.every(_filters(base.Asked(request.GET))), MADE
    )
