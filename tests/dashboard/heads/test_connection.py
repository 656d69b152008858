"""A head that is said again is not read again, and is answered as if it were."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from dashboard.agents.requests import as_json, body_of, send_answer
from dashboard.web.heads import BODY_MAX, Told
from dashboard.web.kept import kept
from dashboard.web.visitors import REMEMBER
from tests.dashboard.heads.counting import AFTER, SAID, Counting, Logging
from tests.dashboard.served import Connection, Web, post, serving, until


class Echo:
    """Answers with the body, `before` it is asked for something; remembers each head."""

    def __init__(self) -> None:
        self.before: Callable[[bytes], Any] = lambda body: None
        self.answered = 0
        self.tasks: list[asyncio.Task[None]] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        with kept.of("test", 2**22) as space:
            body = await body_of(receive, 2**22, space)
        if (waited_for := self.before(body)) is not None:
            await waited_for
        await send_answer(scope, send, as_json(body))
        self.answered += 1
        scope["state"][REMEMBER](scope["state"], self.again)

    def again(self, body: bytes, tell: Told) -> None:
        waited_for = self.before(body)
        if waited_for is None:
            tell(as_json(body))
        else:
            self.tasks.append(asyncio.create_task(self.later(waited_for, body, tell)))

    async def later(self, waited_for: Awaitable[Any], body: bytes, tell: Told) -> None:
        try:
            await waited_for
        except Exception as error:
            tell(error)
        else:
            tell(as_json(body))


@pytest.fixture
def echo() -> Echo:
    Counting.read = 0
    return Echo()


@pytest.fixture
async def web(echo: Echo) -> AsyncIterator[Web]:
    async with serving(echo, kind=Counting) as found:
        yield found


async def acquainted(web: Web, *headers: bytes) -> Connection:
    """A connection whose head is known: its first request is one that nothing was before."""
    one = await web.open(post("/", b"first", *headers))
    assert await one.answer() == (200, b"first")
    assert await one.ask(post("/", b"second", *headers)) == (200, b"second")
    Counting.read = 0
    return one


async def test_its_bytes_are_those_of_one_that_was_read(web: Web, echo: Echo) -> None:
    async def lines(of: Web) -> list[bytes]:
        one, told = await of.open(), b""
        for body in (b"a", b"bcd", b"x" * 500, b"b"):
            one.writer.write(post("/", body))
            told += await one.reader.readuntil(AFTER) + await one.reader.readexactly(len(body))
        one.writer.write(post("/", b"end", b"Connection: close"))
        told += await one.ended()
        return [line for line in told.split(b"\r\n") if b"date: " not in line]

    async with serving(echo, kind=Logging) as usual:
        as_usual = await lines(usual)
    assert Counting.read == 5
    assert await lines(web) == as_usual
    assert Counting.read == 5 + 3  # the first two, and the last one


async def test_the_length_may_be_another_and_nothing_else(web: Web) -> None:
    one = await acquainted(web)
    for body in (b"2", b"x" * BODY_MAX, b""):
        assert await one.ask(post("/", body)) == (200, body)
    assert Counting.read == 0
    large = b"x" * (BODY_MAX + 1)
    assert await one.ask(post("/", large)) == (200, large)
    assert await one.ask(post("/other", b"some")) == (200, b"some")
    assert Counting.read == 2
    assert await one.ask(post("/other", b"some")) == (200, b"some")
    assert Counting.read == 2  # it is the known one now
    assert await one.ask(post("/", b"some")) == (200, b"some")
    assert Counting.read == 3


@pytest.mark.parametrize(
    "header",
    [b"Expect: 100-continue", b"Connection: upgrade\r\nUpgrade: h2c"],
    ids=["waits to be told to go on", "would rather speak another protocol"],
)
async def test_a_special_head_is_read_each_time(web: Web, echo: Echo, header: bytes) -> None:
    one = await web.open()
    for times in range(1, 5):
        one.writer.write(post("/", b"some", header))
        await until(lambda: echo.answered == times)  # noqa: B023
    assert Counting.read == 4


async def test_a_head_is_remembered_for_its_own_request_alone(web: Web, echo: Echo) -> None:
    await acquainted(web)
    protocol = Counting.newest
    protocol.known, protocol.last = None, SAID
    protocol.remember({}, echo.again)
    assert protocol.known is None
    protocol.last = SAID
    protocol.remember(protocol.cycle.scope["state"], echo.again)
    assert protocol.known


async def test_where_requests_are_logged_each_is_read(echo: Echo) -> None:
    async with serving(echo, kind=Logging) as web:
        one = await web.open()
        for _ in range(4):
            assert await one.ask(SAID) == (200, b"some")
    assert Counting.read == 4


async def test_a_body_that_comes_later_than_its_head(web: Web) -> None:
    one = await acquainted(web)
    protocol = Counting.newest
    for body in (b"some", b"other"):
        data = post("/", body)
        one.writer.write(data[: -len(body)])
        await until(lambda: bool(protocol.held))
        assert await one.ask(body) == (200, body)
    assert Counting.read == 0
    one.writer.write(SAID[:-4])
    await until(lambda: bool(protocol.held))
    protocol.flow.write_paused = True  # whatever happens, no body is taken for a head
    one.writer.write(b"so")
    await until(lambda: Counting.read == 1)  # it is read after all
    protocol.flow.write_paused = False
    assert await one.ask(b"me") == (200, b"some")
    assert await one.ask(SAID) == (200, b"some")
    assert Counting.read == 1


async def test_a_body_that_does_not_come_is_not_waited_for(echo: Echo) -> None:
    async with serving(echo, kind=Counting, BODY=0.05, HEADER=60.0) as web:
        one = await acquainted(web)
        one.writer.write(SAID[:-4])
        assert (await one.ended()).startswith(b"HTTP/1.1 408 ")


async def test_who_asks_ahead_is_answered_in_order(web: Web, echo: Echo) -> None:
    one, released = await acquainted(web), asyncio.Event()
    assert await one.ask(SAID * 3) == (200, b"some")
    assert [await one.answer() for _ in range(2)] == [(200, b"some")] * 2
    assert Counting.read == 3  # at once they are not one
    echo.before = lambda body: released.wait() if body == b"slow" else None
    one.writer.write(post("/", b"slow"))
    await until(lambda: len(echo.tasks) == 1)
    one.writer.write(post("/", b"quick"))
    await until(lambda: Counting.read == 4)
    released.set()
    assert [await one.answer() for _ in range(2)] == [(200, b"slow"), (200, b"quick")]
    assert await one.ask(SAID) == (200, b"some")


async def test_its_connection_is_worked_for_and_waited_for_as_others(web: Web, echo: Echo) -> None:
    one, released = await acquainted(web), asyncio.Event()
    protocol = Counting.newest
    visit, crowd = protocol.visit, web.kind.visitors.strangers
    assert visit in crowd.waiting and protocol.timeout_keep_alive_task is not None
    echo.before = lambda body: released.wait()
    one.writer.write(SAID)
    await until(lambda: visit.is_working)
    assert visit not in crowd.waiting
    released.set()
    assert await one.answer() == (200, b"some")
    assert visit in crowd.waiting and protocol.timeout_keep_alive_task is not None
    assert protocol.server_state.total_requests == 3
    await until(lambda: all(task.done() for task in echo.tasks))
    assert Counting.read == 0


async def test_a_connection_is_kept_for_as_long_as_others(
    web: Web, echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since its last answer, though one timer does for many of them."""
    one, released = await acquainted(web), asyncio.Event()
    protocol, loop = Counting.newest, asyncio.get_running_loop()
    timer = protocol.timeout_keep_alive_task
    assert await one.ask(SAID) == (200, b"some")
    assert protocol.timeout_keep_alive_task is timer is not None
    protocol.timeout_keep_alive_handler()  # it was answered just now
    later = protocol.timeout_keep_alive_task
    assert later is not timer and later is not None
    assert later.when() == pytest.approx(protocol.answered_s + 600, abs=1)
    monkeypatch.setattr(protocol, "timeout_keep_alive", 0)
    echo.before = lambda body: released.wait()
    one.writer.write(SAID)
    await until(lambda: protocol.visit.is_working)
    protocol.timeout_keep_alive_handler()  # it is being answered
    assert not protocol.transport.is_closing()
    released.set()
    assert await one.answer() == (200, b"some")
    assert await one.ended() == b""
    assert protocol.answered_s <= loop.time()


@pytest.mark.parametrize("is_later", [False, True])
async def test_an_answer_that_fails_is_500_and_the_end(
    web: Web, echo: Echo, is_later: bool
) -> None:
    async def fail_later() -> None:
        raise ZeroDivisionError

    def fails(body: bytes) -> Awaitable[None]:
        if is_later:
            return fail_later()
        raise ZeroDivisionError

    one = await acquainted(web)
    echo.before = fails
    one.writer.write(SAID)
    told = await one.ended()
    assert told.startswith(b"HTTP/1.1 500 ") and b"connection: close" in told


async def test_who_has_gone_is_not_answered(
    web: Web, echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, released = await acquainted(web), asyncio.Event()
    protocol = Counting.newest
    echo.before = lambda body: released.wait()
    one.writer.write(SAID)
    await until(lambda: len(echo.tasks) == 1)
    one.writer.close()
    await until(lambda: protocol.cycle.disconnected)
    written: list[bytes] = []
    monkeypatch.setattr(protocol, "write_whole", lambda *arguments: written.append(b""))
    released.set()
    await until(lambda: all(task.done() for task in echo.tasks))
    assert not written


async def test_a_server_that_ends_answers_first(echo: Echo) -> None:
    released = asyncio.Event()
    async with serving(echo, kind=Counting) as web:
        one = await acquainted(web)
        protocol = Counting.newest
        echo.before = lambda body: released.wait()
        one.writer.write(SAID)
        await until(lambda: len(echo.tasks) == 1)
        protocol.shutdown()
        released.set()
        told = await one.ended()
    assert told.startswith(b"HTTP/1.1 200 ") and told.endswith(b"\r\n\r\nsome")
    assert b"connection: close\r\n" in told
