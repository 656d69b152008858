"""Who acts while a request is answered, for what is recorded where no request is known; and forms
that were denied before any view saw them.
"""

from collections.abc import Callable
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_only_middleware
from django.views import csrf

from dashboard.pages.views import base
from dashboard.records import audit


@sync_only_middleware
class KnownActor:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        token = audit.acting.set(partial(base.by, request))
        try:
            return self.get_response(request)
        finally:
            audit.acting.reset(token)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's own answer, on record: a form of another site, or an old page."""
    _denied(request, reason)
    return csrf.csrf_failure(request, reason=reason)


def _denied(request: HttpRequest, why: str) -> None:
    found = request.resolver_match
    name = (found.url_name if found and found.url_name else "page").replace("_", " ")
    group = str(found.kwargs.get("name", "")) if found else ""
    by = base.by(request)
    audit.denied(by, f"{request.method} {name}", group, object=request.path, why=why)
