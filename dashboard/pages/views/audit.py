"""The audit list."""

import json

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from dashboard.pages import texts
from dashboard.pages.views.common import Asked, csv_file, show
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


@login_required
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


@login_required
def audit_csv(request: HttpRequest) -> StreamingHttpResponse:
    rows = (
        (
            texts.exact(row.at),
            row.actor,
            row.action,
            row.object,
            row.group and row.group.name,
            row.reason,
            "" if row.before is None else json.dumps(row.before, sort_keys=True),
            "" if row.after is None else json.dumps(row.after, sort_keys=True),
            row.source,
            row.result,
        )
        for row in audit_queries.every(_filters(Asked(request.GET)))
    )
    return csv_file("audit", HEAD, rows)
