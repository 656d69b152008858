"""Context processor: the command that reads from the API what the page shows ("" without one)."""

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from dashboard.api.v1.addresses import of_page


def as_curl(request: HttpRequest) -> dict[str, Any]:
    return {"as_curl": SimpleLazyObject(lambda: of_page(request))}
