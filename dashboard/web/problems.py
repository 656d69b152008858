"""Errors of the people's API as problem+json (RFC 9457), wherever in the process they arise. Knows
no group and no page.
"""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_only_middleware

from dashboard.agents.requests import Send

API = "/api/v1/"
TYPE = "application/problem+json"
RETRY_AFTER_S = 1
LATER = (429, 503)  # the same may be answered then
INNER = 500  # what went wrong inside is for our log

Answers = Callable[[HttpRequest], HttpResponseBase]


def is_api(path: str) -> bool:
    return path.startswith(API)


def problem(status: int, detail: str = "", **more: Any) -> bytes:
    """The document. `detail` is one sentence for whoever asked; `more` are members of its own."""
    said = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    return json.dumps(said | ({"detail": detail} if detail else {}) | more).encode()


def as_sent(path: str, status: int, why: str) -> tuple[bytes, bytes]:
    """Content type and body of a refusal below Django: a problem on the API, else the sentence."""
    if is_api(path):
        return TYPE.encode(), problem(status, why)
    return b"text/plain; charset=utf-8", why.encode()


async def refuse(scope: dict[str, Any], send: Send, status: int, why: str) -> None:
    """Answers an ASGI request so."""
    kind, body = as_sent(scope["path"], status, why)
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    if status in LATER:
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def headers_of(status: int) -> dict[str, str]:
    """What goes with such an answer."""
    found = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return found | ({"Retry-After": str(RETRY_AFTER_S)} if status in LATER else {})


def answer(status: int, detail: str = "", **more: Any) -> HttpResponse:
    body = problem(status, detail, **more)
    return HttpResponse(body, status=status, content_type=TYPE, headers=headers_of(status))


@sync_only_middleware
def problems(get_response: Answers) -> Answers:
    """Django's outermost middleware: pages of errors that others made are problems on the API."""

    def asked(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        is_error = response.status_code >= 400
        if is_api(request.path) and is_error and isinstance(response, HttpResponse):
            _as_problem(response)
        return response

    return asked


def _as_problem(response: HttpResponse) -> None:
    kind, status = response.get("Content-Type", ""), response.status_code
    if kind.startswith(TYPE):
        return
    is_ours = kind.startswith("text/plain") and status != INNER
    detail = response.content.decode(response.charset) if is_ours else ""
    response.content = problem(status, detail)
    response["Content-Type"] = TYPE
    response["Content-Length"] = str(len(response.content))
    for name, value in headers_of(status).items():
        response.setdefault(name, value)
