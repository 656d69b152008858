"""How much of a body is taken: by route, and of one that is refused."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.urls import reverse

from dashboard.agents import routes
from dashboard.asgi import application
from dashboard.web import bodies
from tests.dashboard.served import (
    DEADLINE_S,
    echo,
    post,
    serving,
)


async def body_of(path: str, size: int, said: bool, read: list[int]) -> int:
    """The status; `read` gets what was taken of the body."""
    sent: list[dict[str, Any]] = []
    piece = min(2**14, size)

    async def receive() -> dict[str, Any]:
        read.append(piece)
        more = sum(read) < size
        return {"type": "http.request", "body": b"x" * piece, "more_body": more}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    length = (b"content-length", str(size).encode()) if said else (b"transfer-encoding", b"chunked")
    scope = {"type": "http", "method": "POST", "path": path, "headers": [length]}
    await bodies.Bounded(echo)(scope | {"state": {}}, receive, send)
    return int(sent[0]["status"])


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/login/", bodies.LOGIN_MAX),
        ("/", bodies.FORM_MAX),
        ("/nowhere", bodies.FORM_MAX),
        ("/new-group/", bodies.LARGE_MAX),
        ("/groups/g/settings/", bodies.LARGE_MAX),
        ("/api/v1/groups/g/tokens", bodies.FORM_MAX),
        ("/api/v1/groups/g/settings", bodies.LARGE_MAX),
    ],
)
async def test_body_is_refused_by_route_before_it_is_kept(path: str, most: int, said: bool) -> None:
    read: list[int] = []
    assert await body_of(path, 200_000_000, said, read) == 413
    assert sum(read) <= (0 if said else most + 2**14)
    assert await body_of(path, 2**12, said, []) == 200


def test_routes_of_large_forms_are_there() -> None:
    for name in bodies.LARGE:
        path = reverse(name, args=[] if name == "new_group" else ["g"])
        assert bodies.most_bytes(path) == bodies.LARGE_MAX
    for name in bodies.LARGE_API:
        path = reverse(name, args=[] if name == "v1:groups" else ["g"])
        assert bodies.most_bytes(path) == bodies.LARGE_MAX
    for name in bodies.LOGIN:
        assert bodies.most_bytes(reverse(name)) == bodies.LOGIN_MAX


@pytest.mark.django_db(transaction=True)
async def test_large_body_to_the_login_is_refused_and_the_connection_ends(whole: None) -> None:
    async with serving(application, REST=0.2) as web:
        large = await web.open(post("/login/", b"")[:-5] + b"200000000\r\n\r\n" + b"x" * 100_000)
        answer = await large.ended()
        assert answer.startswith(b"HTTP/1.1 413 ")


async def test_agents_routes_read_no_body_without_a_token() -> None:
    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was read")

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/api/agent/v1/g/join", "headers": []}
    api: Callable[..., Awaitable[None]] = routes.AgentApi()
    await api(scope, receive, send)
    assert sent[0]["status"] == 401


async def test_rest_of_a_refused_body_is_taken_up_to_a_bound() -> None:
    """So that an agent whose large report is refused reads why."""

    async def refuses(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 413, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    start = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    async with serving(refuses) as web:
        within = await web.open(start % 2**22 + b"x" * 2**22)
        async with asyncio.timeout(DEADLINE_S):
            assert (await within.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 413 ")
        above = await web.open(start % 10**9)
        await above.takes_no_end()
