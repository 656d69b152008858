"""Status: what /readyz finds, for people."""

from django.http import HttpRequest, HttpResponse

from dashboard.api import health
from dashboard.pages.views import base


def status(request: HttpRequest) -> HttpResponse:
    return base.show(request, "status", {"section": "status", "found": health.look(named=True)})
