"""The audit list."""

import json

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from dashboard.pages import texts
from dashboard.pages.views import base
from dashboard.records import audit as entries
from dashboard.records.queries.pages import for_file, page_of

PAGE = 50


def audit(request: HttpRequest) -> HttpResponse:
    asked = base.Asked(request.GET)
    filters = asked.filters()
    context = {
        "section": "audit",
        "asked": asked,
        "filters": filters,
        "page": page_of(entries.found(filters), PAGE),
        "actions": entries.actions(),
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
    found = entries.found(base.Asked(request.GET).filters())
    return base.csv_file("audit", HEAD, for_file(found), MADE)
