"""Whether people are being served, for whom the event loop does not stand still."""

import asyncio
from typing import Any

import pytest

from dashboard import asgi
from dashboard.web.in_flight import InFlight


async def nothing(*arguments: Any) -> None:
    raise AssertionError(arguments)


async def test_requests_count_from_begin_to_end_and_sockets_do_not() -> None:
    released, kinds = asyncio.Event(), list[str]()

    async def answering(scope: dict[str, Any], receive: Any, send: Any) -> None:
        kinds.append(scope["type"])
        await released.wait()
        if scope["path"] == "/fails":
            raise ZeroDivisionError

    people = InFlight(answering)
    scopes = [
        {"type": "http", "path": "/"},
        {"type": "http", "path": "/fails"},
        {"type": "websocket", "path": "/"},
    ]
    assert people.is_none()
    tasks = [asyncio.create_task(people(scope, nothing, nothing)) for scope in scopes]
    await asyncio.sleep(0)
    assert (kinds, people.count, people.is_none()) == (["http", "http", "websocket"], 2, False)
    released.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [type(None), ZeroDivisionError, type(None)]
    assert people.is_none()


async def test_a_page_is_somebody_else_and_a_heartbeat_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[bool] = []

    async def looked(scope: dict[str, Any], receive: Any, send: Any) -> None:
        found.append(asgi.agents.batch._is_alone())

    monkeypatch.setattr(asgi.people, "_application", looked)
    scope = {"type": "http", "path": "/healthz", "headers": []}
    await asgi.application(scope, nothing, nothing)
    assert found == [False]
    assert asgi.agents.batch._is_alone()
