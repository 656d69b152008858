"""The audit list, its files, and the button that follows its chain."""

import json
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboard.models import AuditEntry
from dashboard.pages import texts
from dashboard.pages.views import base
from dashboard.records import audit as entries
from dashboard.records import chain
from dashboard.records.queries.groups import existing
from dashboard.records.queries.pages import for_file, page_of
from dashboard.records.stored import canonical_json

PAGE = 50
VERIFIED_MAX = 20_000  # by the button, in a second or two; the command follows all of it
VERIFIERS = ("auditor", "admin")


def audit(request: HttpRequest) -> HttpResponse:
    asked = base.Asked(request.GET)
    filters = asked.filters()
    page = page_of(entries.found(filters), PAGE)
    context = {
        "section": "audit",
        "asked": asked,
        "filters": filters,
        "page": page,
        "groups": existing(row.group for row in page.rows),
        "actions": entries.actions(),
        "results": entries.RESULTS,
        "no_verify": "" if may_verify(request.user) else "It takes an auditor or an admin.",
    }
    return base.show(request, "audit", context, fragments=("audit",))


def may_verify(user: Any) -> bool:
    return bool(user.is_superuser or user.groups.filter(name__in=VERIFIERS).exists())


@require_POST
def audit_verify(request: HttpRequest) -> HttpResponse:
    if not may_verify(request.user):
        raise PermissionDenied("only an auditor or an admin verifies the audit")
    found = chain.verify(VERIFIED_MAX)
    entries.record(base.by(request), "verify audit", object="audit", result=found.sentence)
    (messages.success if found.ok else messages.error)(request, found.sentence)
    return redirect("audit")


HEAD = (
    *("seq", "at", "actor", "address", "action", "object", "group", "reason", "before", "after"),
    *("source", "result", "count", "mac"),
)
MADE: dict[str, base.Made] = {
    "at": lambda row: texts.exact(row.at),
    "before": lambda row: row.before and json.dumps(row.before, sort_keys=True),
    "after": lambda row: row.after and json.dumps(row.after, sort_keys=True),
}


def audit_csv(request: HttpRequest) -> StreamingHttpResponse:
    found = entries.found(base.Asked(request.GET).filters())
    return base.csv_file("audit", HEAD, for_file(found), MADE)


def audit_lines(request: HttpRequest) -> StreamingHttpResponse:
    """All that an entry's HMAC covers, in its canonical form, and the HMAC."""
    found = entries.found(base.Asked(request.GET).filters())
    return base.file_of_lines("audit", map(_line, for_file(found)))


def _line(row: AuditEntry) -> str:
    return canonical_json({**json.loads(chain.canonical(row)), "mac": row.mac})
