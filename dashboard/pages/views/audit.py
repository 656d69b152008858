"""The audit list, its files, and the button that follows its chain."""

import json

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboard.actions.roles import Action
from dashboard.models import AuditEntry
from dashboard.pages import texts
from dashboard.pages.views import base
from dashboard.records import audit as entries
from dashboard.records import chain
from dashboard.records.queries.groups import existing
from dashboard.records.queries.pages import Filters, for_file, page_of
from dashboard.records.rights import narrowed_to
from dashboard.records.stored import canonical_json

PAGE = 50


def audit(request: HttpRequest) -> HttpResponse:
    asked = base.Asked(request.GET)
    filters = asked.filters()
    page = page_of(_found(request, filters), PAGE, key="seq")
    context = {
        "section": "audit",
        "asked": asked,
        "filters": filters,
        "page": page,
        "groups": existing(row.group for row in page.rows),
        "actions": entries.actions(),
        "results": entries.RESULTS,
        "no_verify": base.rights_of(request).why_not(Action.VERIFY_AUDIT, None),
    }
    return base.show(request, "audit", context, fragments=("audit",))


def _found(request: HttpRequest, filters: Filters) -> QuerySet[AuditEntry]:
    """Of the groups whose audit this person may read; what is of no group for auditors of all."""
    rights = base.rights_of(request)
    return narrowed_to(entries.found(filters), rights, Action.READ_AUDIT, "group")


@require_POST
def audit_verify(request: HttpRequest) -> HttpResponse:
    base.only(request, ())
    found = chain.verify(chain.AT_ONCE)
    entries.record(base.by(request), "verify audit", object="audit", result=found.sentence)
    (messages.success if found.ok else messages.error)(request, found.sentence)
    return redirect("audit")


HEAD = (
    *("seq", "at", "actor", "address", "action", "object", "group", "reason", "before", "after"),
    *("source", "token", "result", "count", "mac"),
)
MADE: dict[str, base.Made] = {
    "at": lambda row: texts.exact(row.at),
    "before": lambda row: row.before and json.dumps(row.before, sort_keys=True),
    "after": lambda row: row.after and json.dumps(row.after, sort_keys=True),
}


def audit_csv(request: HttpRequest) -> StreamingHttpResponse:
    found = _found(request, base.Asked(request.GET).filters())
    return base.csv_file("audit", HEAD, for_file(found), MADE)


def audit_lines(request: HttpRequest) -> StreamingHttpResponse:
    """All that an entry's HMAC covers, in its canonical form, and the HMAC."""
    found = _found(request, base.Asked(request.GET).filters())
    return base.file_of_lines("audit", map(_line, for_file(found)))


def _line(row: AuditEntry) -> str:
    return canonical_json({**json.loads(chain.canonical(row)), "mac": row.mac})
