"""What those who are known may cost: connections, bytes of bodies, turns of the reader."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from asgiref.sync import sync_to_async
from pytest_django.fixtures import Settings

from assignment import sizes
from assignment.troubles import TROUBLES_MAX, WHY_MAX, Unserved, UnservedReason
from assignment.types import PARTITIONS_MAX, ReplicaReport, Role
from assignment.wire import Heartbeat
from dashboard.actions import groups
from dashboard.agents import messages
from dashboard.agents.routes import AgentApi
from dashboard.asgi import application
from dashboard.live.connection import close_async_client
from dashboard.models import AuditSource, Group
from dashboard.records.audit import By
from dashboard.web import bodies
from dashboard.web.kept import UNFINISHED, Kept, TooMuch, kept
from dashboard.web.visitors import VISIT, Visitors, said_who
from tests.dashboard.agents import SECRET
from tests.dashboard.served import GET, POST, Connection, echo, echo_after, post, serving, until

ANN = By("ann", AuditSource.PAGE)
JOIN = {"member": "m1", "secret": SECRET, "host": "here"}
BEAT = {"member": "m1", "secret": SECRET, "sequence": 1, "report": 1, "complete": True}
CLAIM = b"POST /api/agent/v1/g/join HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ekt_x\r\n"


@pytest.fixture
async def whole(store: Any, db: None) -> AsyncIterator[None]:
    yield
    await close_async_client()


def known(who: str, most: int) -> Any:
    """Knows who asks before the body is read, as agents' routes do."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        said_who(scope, who, most)
        await echo(scope, receive, send)

    return app


async def closed(connections: list[Connection], count: int) -> None:
    """When so many of them were ended by the server."""
    await until(lambda: sum(map(is_closed, connections)) >= count)


def is_closed(one: Connection) -> bool:
    """Whatever of its answer was read."""
    return one.reader._eof or one.reader.exception() is not None  # type: ignore[attr-defined]


# --- how large an honest report can be


def complete_report(partitions: int, why: str = "x" * WHY_MAX) -> bytes:
    """Of one member that has all of them, most as replicas that something is wrong with."""
    names = [f"{'s' * 60}:{n}" for n in range(partitions)]
    troubles = names[:TROUBLES_MAX]
    told: Any = [{"partition": p, "fence": 2**52, "failures": 9, "why": why} for p in troubles]
    halted: Any = [
        {"partition": p, "reason": "malformed", "entry": "1-1", "why": why} for p in troubles
    ]
    replica = ReplicaReport(
        role=Role.LEARNER,
        lag=2**50,
        percent=99.99999999999999,
        rate=123456.78901234567,
        eta_ms=2**50,
        ready=True,
        why=why,
    )
    beat = Heartbeat(
        member="m" * 100,
        secret=SECRET,
        sequence=2**62,
        report=2**62,
        complete=True,
        consumer={"why": "x" * 1_000, "halted": halted, "failing": told},
        replicas=dict.fromkeys(names, replica),
        unserved=dict.fromkeys(
            troubles, Unserved(reason=UnservedReason.RESTORE, left_ms=2**50, why=why)
        ),
    )
    return msgspec.json.encode(beat)


@pytest.mark.parametrize("partitions", [1, 100, 4_096])
def test_a_report_has_as_much_space_as_its_group_can_need(partitions: int) -> None:
    most = messages.most_bytes("heartbeat", partitions)
    body = complete_report(partitions)
    assert len(body) <= most
    messages.check_values(body, partitions)
    assert most <= messages.BODY_LEAST + 2 * len(body), "and no more than that, about"


def test_all_partitions_that_a_group_may_have_can_be_owned() -> None:
    owned = {f"orders-of-the-shop:{n}": "4294967297 running" for n in range(PARTITIONS_MAX)}
    body = json.dumps(BEAT | {"owned": owned}, separators=(",", ":")).encode()
    assert len(body) <= messages.most_bytes("heartbeat", PARTITIONS_MAX)
    messages.check_values(body, PARTITIONS_MAX)


@pytest.mark.parametrize("partitions", [1, 4_096, PARTITIONS_MAX])
def test_all_members_that_a_group_may_have_are_taken(partitions: int) -> None:
    """Each with a connection of its own and a heartbeat on its way."""
    members = sizes.members_max(partitions)
    assert messages.most_connections(partitions) > members
    beat = json.dumps(BEAT | {"member": "m" * 100, "consumer": {"state": "ready"}})
    assert messages.most_kept(partitions) > members * len(beat)


# --- agents' routes


class Asker:
    """Speaks ASGI; notes whether the body was asked for."""

    def __init__(self, group: Group, token: str) -> None:
        self.group, self.token, self.api = group, token, AgentApi()
        self.has_read = False

    async def ask(self, verb: str, body: bytes, *, length: int | None = None) -> tuple[int, Any]:
        self.has_read = False
        sent: list[dict[str, Any]] = []
        headers = [(b"authorization", f"Bearer {self.token}".encode())]
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        path = f"/api/agent/v1/{self.group.name}/{verb}"

        async def receive() -> dict[str, Any]:
            self.has_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        await self.api(scope, receive, send)
        if sent[0]["status"] in (429, 503):
            assert (b"retry-after", b"1") in sent[0]["headers"]
        return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.fixture
def asker(group: Group) -> Asker:
    return Asker(group, groups.create_token(group, by=ANN).text)


@pytest.mark.django_db(transaction=True)
async def test_the_rate_is_checked_before_the_body_and_counts_what_cannot_be_read(
    asker: Asker, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.AGENT_RATE_PER_SECOND = 3
    monkeypatch.setattr("dashboard.agents.routes.time.time", lambda: 1_000.0)
    assert [(await asker.ask("heartbeat", b"{"))[0] for _ in range(4)] == [400, 400, 400, 429]
    assert not asker.has_read


@pytest.mark.django_db(transaction=True)
async def test_a_body_that_says_it_is_too_large_is_not_read(asker: Asker) -> None:
    most = messages.most_bytes("heartbeat", 4)
    assert (await asker.ask("heartbeat", b" ", length=most + 1))[0] == 413
    assert not asker.has_read
    assert (await asker.ask("heartbeat", b" ", length=most))[0] == 400


@pytest.mark.django_db(transaction=True)
async def test_more_values_than_the_group_can_need_are_not_decoded(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    monkeypatch.setattr(messages, "BODY_LEAST", 2_000)
    monkeypatch.setattr(messages, "read", lambda verb, body: decoded.append(len(body)))
    many = json.dumps(BEAT | {"consumer": {"halted": [{}] * 1_200}}, separators=(",", ":")).encode()
    assert len(many) <= messages.most_bytes("heartbeat", 4)
    status, problem = await asker.ask("heartbeat", many)
    assert (status, problem["title"], decoded) == (413, "Body too large", [])


@pytest.mark.django_db(transaction=True)
async def test_half_bodies_of_a_token_are_bounded(
    whole: None, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "most_kept", lambda partitions: 3 * UNFINISHED)
    texts = [(await sync_to_async(groups.create_token)(group, by=ANN, name=n)).text for n in "ab"]
    path = f"/api/agent/v1/{group.name}/join"
    join = json.dumps(JOIN).encode()
    half, other = [
        post(path, join, b"Authorization: Bearer " + text.encode())[:-1] for text in texts
    ]
    async with serving(application) as web:
        held = [await web.open(half) for _ in range(3)]
        await until(lambda: kept.bytes == 3 * UNFINISHED)
        for _ in range(5):
            assert (await (await web.open()).ask(half))[0] == 503
        assert (await (await web.open()).ask(other + b"}"))[0] == 200, "another token does not pay"
        assert [(await one.ask(b"}"))[0] for one in held] == [200] * 3, "these had come"
        assert (await (await web.open()).ask(half + b"}"))[0] == 200, "and have gone again"


# --- turns


async def test_large_bodies_have_turns_by_token(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, release, read = messages.Reader(), threading.Event(), list[int]()

    def work(token: int) -> None:
        release.wait()
        read.append(token)

    def ask(token: int) -> asyncio.Task[None]:
        return asyncio.create_task(reader.do(token, lambda: work(token)))

    greedy = [ask(1)]
    await asyncio.sleep(0.01)
    greedy += [ask(1), ask(1), ask(1)]
    honest = [ask(2), ask(3)]
    await asyncio.sleep(0.01)
    refused = [task for task in greedy if task.done()]
    assert [type(task.exception()) for task in refused] == [messages.TooBusy] * 2
    release.set()
    await asyncio.gather(*honest, *greedy, return_exceptions=True)
    assert read == [1, 1, 2, 3], "who comes with many has one in the queue"


async def test_a_token_rests_as_long_as_its_body_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """In seconds of CPU. Others do not rest."""
    took = iter((0.0, 3_600.0, 0.0, 0.0))
    clock = SimpleNamespace(thread_time=lambda: next(took), monotonic=time.monotonic)
    monkeypatch.setattr(messages, "time", clock)
    reader = messages.Reader()
    assert await reader.do(1, lambda: "first") == "first"
    second = asyncio.create_task(reader.do(1, lambda: "second"))
    await asyncio.sleep(0)
    assert await reader.do(2, lambda: "other") == "other"
    assert not second.done()
    second.cancel()


async def test_whoever_gives_up_gives_its_turn_back() -> None:
    reader, release = messages.Reader(), threading.Event()
    first = asyncio.create_task(reader.do(1, release.wait))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(reader.do(1, release.wait))
    await asyncio.sleep(0.01)
    for task in (first, second):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    release.set()
    assert await reader.do(1, lambda: "read") == "read"


# --- bytes that are kept


def test_each_sender_has_its_bound_and_all_together_theirs() -> None:
    three = Kept(in_all=100)
    with three.of("a", 70) as a, three.of("b", 70) as b, three.of("c", 70) as c:
        a.add(70, is_last=True)
        with pytest.raises(TooMuch):
            a.add(1, is_last=True)
        b.add(30, is_last=True)
        with pytest.raises(TooMuch):
            b.add(31, is_last=True)  # all is taken, so everybody has a half at most
        b.add(20, is_last=True)
        c.add(33, is_last=True)  # a third
        with pytest.raises(TooMuch):
            c.add(1, is_last=True)
        assert three.bytes == 153
    assert (three.bytes, three._of) == (0, {})


async def test_half_forms_of_a_user_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "KEPT_MAX", 3 * UNFINISHED)

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        said_who(scope, "user 1")
        await asyncio.sleep(0)
        await bodies.Bounded(echo)(scope, receive, send)

    async with serving(app) as web:
        held = [await web.open(POST + b"half") for _ in range(3)]
        await until(lambda: kept.bytes == 3 * UNFINISHED)
        assert (await (await web.open()).ask(POST + b"half"))[0] == 503
        assert (await (await web.open(source="127.0.0.2")).ask(POST + b"half"))[0] == 503
        assert [(await one.ask(b"x" * 5))[0] for one in held] == [200] * 3
        await until(lambda: kept.bytes == 0)


# --- connections


async def test_connections_of_a_token_are_bounded() -> None:
    async with serving(known("token 1", 3)) as web:
        idle = [await web.open() for _ in range(8)]
        for one in idle:
            assert (await one.ask(GET + b"\r\n"))[0] == 200
        await closed(idle, 5)
        assert [is_closed(one) for one in idle] == [True] * 5 + [False] * 3
        half = [await web.open(POST + b"half") for _ in range(20)]
        await closed(idle + half, 25)
        assert not is_closed(half[-1]), "the newest are kept"
        assert web.strangers == 0


async def test_who_comes_when_all_places_of_a_token_work_ends_with_the_answer() -> None:
    released = asyncio.Event()
    working = echo_after(released)

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        said_who(scope, "token 1", 2)
        await (working if scope["path"] == "/" else echo)(scope, receive, send)

    async with serving(app) as web:
        at_work = [await web.open(GET + b"\r\n") for _ in range(2)]
        await until(lambda: web.kind.visitors.known.count == 2)
        third = await web.open(b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await third.ended()
        released.set()
        assert [(await one.answer())[0] for one in at_work] == [200] * 2


async def test_who_says_who_it_is_is_known_before_the_next_one_comes() -> None:
    """In one long turn of the loop come hundreds, whose answers are not written before its end."""
    visitors, ended = Visitors(claimed_per_address=1), list[int]()
    for n in range(5):
        visit = visitors.come("10.0.0.7", partial(ended.append, n))
        assert visit is not None
        visitors.claim(visit)
        visitors.work(visit)
        said_who({"state": {VISIT: visit}}, "token 1", 9)
        visitors.wait(visit)
    assert (ended, visitors.known.count, visitors.claimed.count) == ([], 5, 0)


async def test_all_who_are_known_have_a_bound_together() -> None:
    names = iter(f"user {n}" for n in range(9))

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        said_who(scope, next(names))
        await echo(scope, receive, send)

    async with serving(app, Visitors(known_in_all=4)) as web:
        kept = [await web.open() for _ in range(9)]
        for one in kept:
            assert (await one.ask(GET + b"\r\n"))[0] == 200
        await closed(kept, 5)
        assert web.kind.visitors.known.count == 4
    assert web.kind.visitors._of == {}


async def test_behind_a_proxy_connections_are_nobodys(settings: Settings) -> None:
    settings.BEHIND_PROXY = True
    async with serving(known("user 1", 2)) as web:
        pool = [await web.open() for _ in range(6)]
        for one in pool * 2:
            assert (await one.ask(GET + b"\r\n"))[0] == 200


async def test_whoever_only_shows_a_token_has_a_bound() -> None:
    """While it is checked."""
    released = asyncio.Event()
    bounds = Visitors(per_address=2, patience_s=0.0, claimed_per_address=5)
    async with serving(echo_after(released), bounds) as web:
        claiming = [await web.open(CLAIM + b"Content-Length: 9\r\n\r\n{") for _ in range(40)]
        await closed(claiming, 33)
        assert bounds.claimed.count + bounds.count == 7
        released.set()


async def test_whose_token_was_refused_makes_place_at_once() -> None:
    async def refuses(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    bounds = Visitors(claimed_per_address=5)
    async with serving(refuses, bounds, REST=3_600.0) as web:
        wrong = [await web.open(CLAIM + b"Content-Length: 9\r\n\r\n{") for _ in range(40)]
        await closed(wrong, 35)
        assert bounds.claimed.count == 5


async def test_with_an_address_whose_tokens_are_refused_nobody_has_patience() -> None:
    """Else each that comes again would have it again."""
    visitors, ended = Visitors(per_address=2, claimed_per_address=3), list[int]()

    def come(number: int, address: str = "a") -> None:
        assert visitors.come(address, lambda: ended.append(number))

    for number in range(4):
        come(number)
    assert ended == [], "they have only come"
    for visit in tuple(visitors.strangers.waiting)[:3]:
        visitors.refuse(visit)
    assert (visitors.claimed.count, visitors.count, ended) == (3, 1, [])
    for number in range(4, 8):
        come(number)
    assert (visitors.count, ended) == (2, [3, 4, 5])
    for number in range(8, 12):
        come(number, "b")
    assert (visitors.count, ended) == (6, [3, 4, 5]), "another address does not pay"


@pytest.mark.django_db(transaction=True)
async def test_connections_of_a_revoked_token_end(
    whole: None, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await sync_to_async(groups.create_token)(group, by=ANN)
    path = f"/api/agent/v1/{group.name}/join"
    asked = post(path, json.dumps(JOIN).encode(), b"Authorization: Bearer " + made.text.encode())
    async with serving(application) as web:
        agents = [await web.open() for _ in range(4)]
        for agent in agents:
            assert (await agent.ask(asked))[0] == 200
        monkeypatch.setattr("dashboard.agents.tokens.LOOK_EVERY_S", 0)
        await sync_to_async(groups.revoke_token)(made.token, ANN)
        for agent in agents:
            assert (await agent.ask(asked))[0] == 401
        await until(lambda: web.kind.visitors.known.count == 0)
        await closed(agents, 4)


# --- the end


@pytest.mark.parametrize("start", [POST, CLAIM + b"Content-Length: 9\r\n\r\n"])
async def test_a_server_that_ends_does_not_wait_for_half_a_body(start: bytes) -> None:
    async with serving(known("token 1", 9), REST=0.1, BODY=3_600.0) as web:
        half = await web.open(start + b"half")
        await until(lambda: web.kind.visitors.known.count == 1)
    assert (await half.ended()).startswith(b"HTTP/1.1 408 ")


async def test_a_server_that_ends_answers_what_it_has() -> None:
    released = asyncio.Event()
    async with serving(echo_after(released), REST=0.1) as web:
        asking = await web.open(GET + b"\r\n")
        await until(lambda: len(web.kind.visitors.strangers.waiting) == 0)
        asyncio.get_running_loop().call_later(0.5, released.set)
    assert b" 200 " in await asking.ended()
