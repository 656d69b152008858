"""A head that is said again is not read again, and is answered as if it were."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from dashboard.actions import groups
from dashboard.agents import tokens
from dashboard.agents.issued import digest_of
from dashboard.agents.repeated import Repeated
from dashboard.agents.requests import as_json, body_of, send_answer
from dashboard.agents.routes import AgentApi
from dashboard.live.batches import Batches
from dashboard.live.connection import StoreUnavailable
from dashboard.models import AgentToken, AuditSource, Group
from dashboard.records.audit import By
from dashboard.web.counts import NO_GROUP, counts
from dashboard.web.heads import BODY_MAX, HEAD_MAX, Head, Told
from dashboard.web.kept import kept
from dashboard.web.protocols import HttpProtocol
from dashboard.web.visitors import REMEMBER
from tests.dashboard.agents import BEAT, JOIN, token_of
from tests.dashboard.served import Connection, Web, post, serving, until

SAID = post("/", b"some")
BEFORE, AFTER = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", b"\r\n\r\n"


# --- bytes


@pytest.mark.parametrize(
    "request_, head",
    [
        (SAID, Head(BEFORE, AFTER)),
        (post("/", b""), Head(BEFORE, AFTER)),
        (
            b"POST / HTTP/1.1\r\ncontent-LENGTH:  2 \r\nA: b\r\n\r\nxy",
            Head(b"POST / HTTP/1.1\r\ncontent-LENGTH:  ", b" \r\nA: b\r\n\r\n"),
        ),
        (SAID + b"x", None),
        (SAID[:-1], None),
        (SAID.replace(b"Content", b"X-Content"), None),
        (SAID.replace(b"Host", b"Content-Length: 4\r\nHost"), None),
        (post("/", b"some", b"A: " + b"x" * HEAD_MAX), None),
    ],
)
def test_a_head_is_remembered_by_what_stands_around_the_length(
    request_: bytes, head: Head | None
) -> None:
    assert Head.of(request_) == head


@pytest.mark.parametrize(
    "data, body",
    [
        (SAID, b"some"),
        (post("/", b"x" * 12), b"x" * 12),
        (post("/", b"a\r\n\r\nb"), b"a\r\n\r\nb"),
        (post("/", b""), b""),
        (post("/", b"x" * BODY_MAX), b"x" * BODY_MAX),
        (post("/", b"x" * (BODY_MAX + 1)), None),
        (SAID[:-1], None),
        (SAID + b"x", None),
        (SAID * 2, None),
        (BEFORE + b"04" + AFTER + b"some", None),
        (BEFORE + b"4" + b"\r\nA: b" + AFTER + b"some", None),
        (BEFORE + b"4", None),
        (post("/other", b"some"), None),
        (SAID.replace(b"localhost", b"LOCALHOST"), None),
        (b"", None),
    ],
)
def test_a_body_is_found_behind_the_same_head_alone(data: bytes, body: bytes | None) -> None:
    head = Head.of(SAID)
    assert head and head.body_in(data) == body


@pytest.mark.parametrize(
    "digits, is_alone",
    [
        (b"4", True),
        (b"%d" % BODY_MAX, True),
        (b"%d" % (BODY_MAX + 1), False),
        (b"100000", False),
        (b"0", False),
        (b"", False),
        (b"-4", False),
        (b"4 ", False),
    ],
)
def test_a_head_whose_body_is_still_to_come(digits: bytes, is_alone: bool) -> None:
    head = Head.of(SAID)
    assert head and head.is_alone(BEFORE + digits + AFTER) is is_alone
    assert not head.is_alone(BEFORE[:-1] + AFTER)


# --- a server, and connections to it


class Counting(HttpProtocol):
    """How many requests the parser has read, and what is not expected."""

    read = 0
    newest: "Counting"
    logs = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        Counting.newest = self
        self.access_log = self.logs  # pytest listens to it

    def on_headers_complete(self) -> None:
        Counting.read += 1
        super().on_headers_complete()


class Logging(Counting):
    logs = True


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


# --- agents' routes


def asks(verb: str, group: str, token: str, body: Any) -> bytes:
    said = body if isinstance(body, bytes) else json.dumps(body).encode()
    return post(f"/api/agent/v1/{group}/{verb}", said, b"Authorization: Bearer " + token.encode())


class Beating:
    """An agent whose head is known to the routes."""

    def __init__(self, connection: Connection, group: Group, token: str) -> None:
        self.connection, self.group, self.token = connection, group, token
        self.sequence = 0
        self.web: Web
        self.api: AgentApi

    async def beat(self, **more: Any) -> int:
        self.sequence += 1
        beat = BEAT | {"sequence": self.sequence, "complete": self.sequence == 1} | more
        return await self.say(beat)

    async def say(self, body: Any) -> int:
        status, told = await self.connection.ask(
            asks("heartbeat", self.group.name, self.token, body)
        )
        self.told = json.loads(told)
        return status


@pytest.fixture
async def beating(group: Group) -> AsyncIterator[Beating]:
    token = await asyncio.to_thread(token_of, group)
    api = AgentApi()
    async with serving(api, kind=Counting) as web:
        one = Beating(await web.open(), group, token)
        one.web, one.api = web, api
        assert (await one.connection.ask(asks("join", group.name, token, JOIN)))[0] == 200
        assert [await one.beat() for _ in range(2)] == [200, 200]
        Counting.read = 0
        yield one


@pytest.mark.django_db(transaction=True)
async def test_a_beat_is_answered_and_counted_without_being_read(beating: Beating) -> None:
    name = beating.group.name, "ok"
    before = counts.heartbeats[name]
    assert [await beating.beat() for _ in range(3)] == [200] * 3
    assert beating.told["status"] == "ok"
    assert counts.heartbeats[name] == before + 3
    assert await beating.say(b"{") == 400
    assert (beating.told["title"], counts.heartbeats[beating.group.name, "invalid"]) == (
        "Malformed JSON",
        1,
    )
    assert await beating.beat() == 200
    assert Counting.read == 0


@pytest.mark.django_db(transaction=True)
async def test_a_beat_waits_for_its_answer_in_no_task(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_task(*_: Any) -> None:
        raise AssertionError("a task of its own")

    with monkeypatch.context() as patch:
        patch.setattr(AgentApi, "_answer_later", no_task)
        assert [await beating.beat() for _ in range(2)] == [200, 200]
    monkeypatch.setattr("dashboard.live.nodes.cluster", lambda: None)
    monkeypatch.setattr(Batches, "only", None)  # as where it is a cluster
    assert await beating.beat() == 200
    assert Counting.read == 0


@pytest.mark.django_db(transaction=True)
async def test_of_whatever_is_answered_no_body_is_kept(
    beating: Beating, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """What went wrong is said as to who is read: 503 if Redis is away, 500 if nobody knows why."""

    async def away(*_: Any) -> None:
        raise StoreUnavailable("no Redis")

    said = {}
    said["well"] = await beating.beat()
    said["malformed"] = await beating.say(b"{")
    with monkeypatch.context() as patch:
        patch.setattr("dashboard.live.batch._exchanged", away)
        said["away"] = await beating.beat()
        assert beating.told["detail"] == "no Redis"
    with monkeypatch.context() as patch:
        patch.setattr("dashboard.live.batch.WAITING_MAX", 0)
        said["full"] = await beating.beat()
    with monkeypatch.context() as patch:
        patch.setattr("dashboard.web.kept.kept._in_all", 0)
        said["large"] = await beating.beat()
    assert said == {"well": 200, "malformed": 400, "away": 503, "full": 503, "large": 503}
    assert await beating.beat() == 200
    monkeypatch.setattr("dashboard.agents.repeated.replied", None)  # whatever may be wrong in there
    beating.connection.writer.write(asks("heartbeat", beating.group.name, beating.token, BEAT))
    assert (await beating.connection.ended()).startswith(b"HTTP/1.1 500 ")
    assert kept.bytes == 0 and Counting.read == 0


@pytest.mark.django_db(transaction=True)
async def test_whoever_was_answered_in_time_is_not_given_up_later(beating: Beating) -> None:
    assert await beating.beat() == 200
    batch = beating.api.batch.only
    assert batch
    (*_, (_, last)) = batch._until
    assert isinstance(last, Repeated) and last.done()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "change, status",
    [
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, 401),
        ({"token_id": 0}, 401),
        ({"group": "another"}, 403),
    ],
)
async def test_a_token_is_checked_with_each_beat(
    beating: Beating, change: dict[str, Any], status: int
) -> None:
    digest = digest_of(beating.token)
    known = beating.api.tokens.get(digest, "127.0.0.1")
    assert known
    beating.api.tokens._remembered.put(replace(known, **change))
    assert await beating.beat() == status
    assert Counting.read == 0


@pytest.mark.django_db(transaction=True)
async def test_who_cannot_be_answered_is_alone_with_that(
    beating: Beating, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Counting.newest
    other = Beating(await beating.web.open(), beating.group, beating.token)
    other.sequence = beating.sequence
    assert [await other.beat() for _ in range(2)] == [200, 200]
    beating.sequence = other.sequence + 1

    def breaks(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(broken, "write_whole", breaks)
    lost = asyncio.create_task(beating.beat())
    await until(lambda: broken.visit.is_working)
    assert await other.beat() == 200
    lost.cancel()
    assert "the answer to a heartbeat was not written" in caplog.text


@pytest.mark.django_db(transaction=True)
async def test_a_token_that_was_revoked_is_refused_under_a_known_head(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "LOOK_EVERY_S", 0.0)
    token = await asyncio.to_thread(AgentToken.objects.get, digest=digest_of(beating.token))
    await asyncio.to_thread(groups.revoke_token, token, By("ann", AuditSource.PAGE))
    before = counts.heartbeats.get((NO_GROUP, "unauthorized"), 0)
    assert await beating.beat() == 401
    assert Counting.read == 0
    assert counts.heartbeats[NO_GROUP, "unauthorized"] == before + 1
    assert await beating.connection.ended() == b""


@pytest.mark.django_db(transaction=True)
async def test_the_rate_and_the_size_count_under_a_known_head(
    beating: Beating, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.agents.messages.most_bytes", lambda verb, partitions: 1_000)
    assert await beating.say(b"x" * 1_001) == 413
    monkeypatch.undo()
    settings.AGENT_RATE_PER_SECOND = 2
    monkeypatch.setattr("dashboard.agents.routes.time.time", lambda: 1_000.0)
    assert [await beating.beat() for _ in range(3)] == [200, 200, 429]
    assert Counting.read == 0
