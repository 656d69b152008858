"""/metrics, for Prometheus: who has its token reads it. What it tells stands in families.py.

Without a token it is closed, but in development, to this machine.
"""

import hashlib
import hmac
import logging

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from assignment.hosts import is_loopback
from dashboard.api.families import Exposition
from dashboard.safeguards import are_others
from dashboard.web.visitors import refused, said_who

READER = "metrics"  # whose connection it is, once the token was found valid
TEXT = "text/plain; charset=utf-8"

log = logging.getLogger(__name__)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    scope = getattr(request, "scope", {})
    if not (request.is_secure() or settings.DEVELOPMENT):
        why = "metrics are read over HTTPS: who followed a redirect would have shown its token"
        return HttpResponse(why, status=403, content_type=TEXT)
    if not is_allowed(request):
        refused(scope)
        why = "the header Authorization: Bearer <EVENKEEL_METRICS_TOKEN> is missing or wrong"
        told = {"WWW-Authenticate": "Bearer"}
        return HttpResponse(why, status=401, content_type=TEXT, headers=told)
    said_who(scope, READER)
    now_ms = int(timezone.now().timestamp() * 1000)
    try:
        body = generate_latest(Exposition(now_ms))
    except DatabaseError as error:
        log.warning("metrics not told: %s", error)
        why = "the database does not answer; the log of this process says why"
        return HttpResponse(why, status=503, content_type=TEXT, headers={"Retry-After": "1"})
    return HttpResponse(body, content_type=CONTENT_TYPE_PLAIN_0_0_4)


def is_allowed(request: HttpRequest) -> bool:
    if not settings.METRICS_TOKEN:
        is_here = settings.DEVELOPMENT and not are_others(settings.ALLOWED_HOSTS)
        return is_here and is_loopback(request.META.get("REMOTE_ADDR", ""))
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    is_same = hmac.compare_digest(_digest(token.strip()), _digest(settings.METRICS_TOKEN))
    return scheme.lower() == "bearer" and is_same


def _digest(text: str) -> bytes:
    """So that neither length nor place of a difference is told by the time that it takes."""
    return hashlib.sha256(text.encode()).digest()
