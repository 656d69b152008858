"""What those who are known may cost: bytes of bodies, turns of the reader."""

import asyncio
import json
import threading
import time
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
from dashboard.models import AuditSource, Group
from dashboard.records.audit import By
from dashboard.web import bodies
from dashboard.web.kept import UNFINISHED, Kept, TooMuch, kept
from dashboard.web.visitors import said_who
from tests.dashboard.agents import SECRET
from tests.dashboard.served import POST, echo, post, serving, until

ANN = By("ann", AuditSource.PAGE)
JOIN = {"member": "m1", "secret": SECRET, "host": "here"}
BEAT = {"member": "m1", "secret": SECRET, "sequence": 1, "report": 1, "complete": True}


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
    monkeypatch.setattr("dashboard.agents.rate.time.time", lambda: 1_000.0)
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
        await bodies.Bounded(echo)(scope, receive, send)

    async with serving(app) as web:
        held = [await web.open(POST + b"half") for _ in range(3)]
        await until(lambda: kept.bytes == 3 * UNFINISHED)
        assert (await (await web.open()).ask(POST + b"half"))[0] == 503
        assert (await (await web.open(source="127.0.0.2")).ask(POST + b"half"))[0] == 503
        assert [(await one.ask(b"x" * 5))[0] for one in held] == [200] * 3
        await until(lambda: kept.bytes == 0)
