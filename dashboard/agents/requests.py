"""What agents' requests are as HTTP, whoever asks for what: encrypted, for this dashboard, of a
bounded size; and how they are answered. Errors are problem+json (RFC 9457).
"""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

import msgspec
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from dashboard.web.heads import Answer
from dashboard.web.kept import Body, TooMuch
from dashboard.web.visitors import WHOLE

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

JSON, PROBLEM = b"application/json", b"application/problem+json"
HOSTS_KEPT = 256  # names by which agents call this dashboard, or tried to
encode = msgspec.json.Encoder().encode


class Problem(Exception):
    """An answer that is not 200. `retry_after_s`: of 429 and 503, when to come again."""

    def __init__(self, status: int, title: str, detail: str, retry_after_s: int = 1) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail = status, title, detail
        self.retry_after_s = retry_after_s


def demand_encrypted(scope: Scope) -> None:
    """No redirect: whoever follows one has shown its token already."""
    if scope.get("scheme") != "https" and not settings.DEVELOPMENT:
        why = "agents come here over HTTPS: give --dashboard https://..."
        raise Problem(403, "Plain HTTP", why)


def demand_known_host(scope: Scope) -> None:
    """As pages do. Who names none (HTTP/1.0) did not mistake us for another."""
    for name, value in scope["headers"]:
        if name == b"host" and not _is_ours(value, tuple(settings.ALLOWED_HOSTS)):
            why = f"EVENKEEL_HOSTS of this dashboard lacks {value.decode('latin-1')!r}"
            raise Problem(400, "Unknown host", why)


@lru_cache(HOSTS_KEPT)
def _is_ours(host: bytes, allowed: tuple[str, ...]) -> bool:
    return validate_host(split_domain_port(host.decode("latin-1"))[0], allowed)


def header_of(scope: Scope, name: bytes) -> bytes:
    """The first one of that name."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


def address_of(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def demand_size(scope: Scope, most: int) -> None:
    said = header_of(scope, b"content-length")
    if said.isdigit() and int(said) > most:
        raise too_large(f"more than {most} bytes")


def too_large(why: str) -> Problem:
    return Problem(413, "Body too large", why)


async def body_of(receive: Receive, most: int, space: Body) -> bytes:
    """The whole body, refused as soon as it is larger than `most` bytes."""
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Problem(400, "Request ended early", "the connection closed inside the body")
        parts.append(message.get("body", b""))
        is_last = not message.get("more_body")
        keep(space, len(parts[-1]), most, is_last=is_last)
        if is_last:
            return b"".join(parts)


def keep(space: Body, size: int, most: int, *, is_last: bool) -> None:
    """So many bytes more of a body of `most` bytes."""
    if space.came + size > most:
        raise too_large(f"more than {most} bytes")
    try:
        space.add(size, is_last)
    except TooMuch:
        why = "too many bytes of this token wait to be read; try again"
        raise Problem(503, "Busy", why) from None


def as_json(body: bytes) -> Answer:
    return Answer.of(200, JSON, body)


def as_answer(problem: Problem) -> Answer:
    body = encode({"status": problem.status, "title": problem.title, "detail": problem.detail})
    more = b""
    if problem.status == 401:
        more = b"www-authenticate: Bearer\r\n"
    if problem.status in (429, 503):
        more = b"retry-after: %d\r\n" % problem.retry_after_s
    return Answer.of(problem.status, PROBLEM, body, more)


async def send_answer(scope: Scope, send: Send, answer: Answer) -> None:
    """What is 200 was asked by no HEAD, whose body would be sent."""
    state = scope.get("state") or {}
    if answer.status == 200 and WHOLE in state and state[WHOLE](state, answer):
        return
    lines = answer.lines.split(b"\r\n")[:-1]
    headers = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
