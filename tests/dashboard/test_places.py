"""Pages never take the last connections to the database: those are for agents and sockets."""

import asyncio
from typing import Any

import pytest

from dashboard.web import places
from dashboard.web.places import Places

PAGE = {"type": "http", "path": "/groups/"}


class Pages:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.open = self.most = 0
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.open += 1
        self.most = max(self.most, self.open)
        await self.go_on.wait()
        self.open -= 1
        if scope["path"] == "/fails":
            raise ValueError("a bug")


async def status_of(application: Any, path: str = "/groups/") -> tuple[int, str] | None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await application(PAGE | {"path": path}, None, send)
    return (sent[0]["status"], sent[1]["body"].decode()) if sent else None


async def test_so_many_are_answered_at_a_time_and_all_in_the_end() -> None:
    pages = Pages()
    application = Places(pages, 3)
    asked = [asyncio.create_task(status_of(application)) for _ in range(10)]
    await asyncio.sleep(0)
    pages.go_on.set()
    assert await asyncio.gather(*asked) == [None] * 10
    assert (pages.most, pages.open) == (3, 0)


async def test_who_waits_too_long_is_told_what_there_is_too_little_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "WAIT_S", 0.01)
    pages = Pages()
    application = Places(pages, 1)
    first = asyncio.create_task(status_of(application))
    await asyncio.sleep(0)
    answer = await status_of(application)
    assert answer is not None and answer[0] == 503 and "EVENKEEL_DATABASE_POOL" in answer[1]
    pages.go_on.set()
    assert await first is None
    assert await status_of(application) is None, "the place is free again"


async def test_what_needs_no_connection_needs_no_place() -> None:
    pages = Pages()
    application = Places(pages, 1, ("/healthz",))
    asked = [asyncio.create_task(status_of(application, path)) for path in ("/", "/healthz")]
    await asyncio.sleep(0)
    assert pages.open == 2
    pages.go_on.set()
    await asyncio.gather(*asked)


async def test_a_page_that_fails_leaves_its_place() -> None:
    pages = Pages()
    pages.go_on.set()
    application = Places(pages, 1)
    for _ in range(2):
        with pytest.raises(ValueError, match="a bug"):
            await status_of(application, "/fails")
    assert await status_of(application) is None
