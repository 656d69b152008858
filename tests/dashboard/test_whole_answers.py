"""What agents are answered goes out in one write, and is what uvicorn would have sent."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dashboard.agents.requests import as_json, body_of, send_answer
from dashboard.web.kept import kept
from dashboard.web.protocols import HttpProtocol
from tests.dashboard.served import POST, Web, post, serving, until

LARGE = 2**25  # more than sockets and buffers of both sides take
ONES = post("/", b"one") + post("/", b"two!")


class Telling(HttpProtocol):
    """Whether answers went out whole."""

    whole: list[bool]
    ended = 0  # requests, as uvicorn counts them
    logs = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.access_log = self.logs  # pytest listens to it

    def on_response_complete(self) -> None:
        Telling.ended += 1
        super().on_response_complete()

    def answer_whole(self, *arguments: Any) -> bool:
        done = super().answer_whole(*arguments)
        self.whole.append(done)
        return done


class Logging(Telling):
    logs = True


async def told(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """As agents' routes: the body again; of /large as much as nobody reads at once."""
    with kept.of("test", 2**20) as space:
        body = await body_of(receive, 2**20, space)
    body = body if scope["path"] != "/large" else bytes(LARGE)
    await send_answer(scope, send, as_json(body))


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    Telling.whole, Telling.ended = [], 0
    async with serving(told, kind=Telling) as found:
        yield found


@pytest.mark.parametrize(
    "asked",
    [
        post("/", b"some"),
        post("/", b"some", b"Connection: close"),
        post("/", b"some").replace(b"HTTP/1.1", b"HTTP/1.0"),
        post("/", b"some", b"Expect: 100-continue"),
    ],
    ids=["kept", "closed", "of 1.0", "of who waits to be told to go on"],
)
async def test_its_bytes_are_those_of_uvicorn(web: Web, asked: bytes) -> None:
    async def lines(of: Web) -> list[bytes]:
        Telling.whole.clear()
        one = await of.open(asked)
        await until(lambda: len(Telling.whole) == 1)
        one.writer.write(post("/", b"end", b"Connection: close"))
        return [line for line in (await one.ended()).split(b"\r\n") if b"date: " not in line]

    async with serving(told, kind=Logging) as usual:
        as_usual = await lines(usual)
    assert as_usual.count(b"HTTP/1.1 200 OK") >= 1 and not any(Telling.whole)
    assert await lines(web) == as_usual
    assert Telling.whole and all(Telling.whole)


async def test_who_asks_ahead_is_answered_in_order(web: Web) -> None:
    one = await web.open(ONES * 4)
    assert [await one.answer() for _ in range(8)] == [(200, b"one"), (200, b"two!")] * 4
    assert await one.ask(post("/", b"again")) == (200, b"again")
    assert Telling.whole == [False] * 7 + [True] * 2  # the last one, and who does not ask ahead
    assert Telling.ended == 9


async def test_who_does_not_read_is_waited_for(web: Web) -> None:
    one = await web.open(post("/large", b""))
    await until(lambda: Telling.whole == [True])
    one.writer.write(post("/large", b""))
    await until(lambda: Telling.whole == [True, False])
    assert [await one.answer() for _ in range(2)] == [(200, bytes(LARGE))] * 2


async def test_who_has_gone_is_not_answered(web: Web) -> None:
    released = asyncio.Event()

    async def later(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await released.wait()
        await send_answer(scope, send, as_json(b"{}"))

    async with serving(later, kind=Telling) as found:
        one = await found.open(POST + b"123456789")
        await until(lambda: found.strangers == 1)
        one.writer.close()
        await until(lambda: found.strangers == 0)
        released.set()
        await until(lambda: Telling.whole == [False])
