"""load_check's light members: their connections, and what they do against the agents' routes and a
real Redis.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import uvloop

from assignment.member import messages, pacing
from assignment.member.state import claims_of
from assignment.scripts import agent_side, dashboard_side
from assignment.scripts.group_read import Purpose, read_group
from assignment.types import Reason
from assignment.wire import GroupKeys, parse_lock
from dashboard import coordinator
from dashboard.actions import groups
from dashboard.agents.routes import AgentApi
from dashboard.evaluation.beside.speaking import NoAnswer
from dashboard.evaluation.load import hints
from dashboard.evaluation.load.client import LOOK_S, Crowd, Task
from dashboard.evaluation.load.lines import WEB_TIMEOUT_S, Answered, TimedOut, WebLine, header
from dashboard.evaluation.load.member import LightMember
from dashboard.live.scripts import run
from dashboard.models import Group
from dashboard.records.audit import By
from tests.dashboard.served import serving, until

# --- lines


@asynccontextmanager
async def answering(*pieces: bytes) -> AsyncIterator[WebLine]:
    """A server that answers every request with these pieces."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(2**16):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    line = WebLine(port=server.sockets[0].getsockname()[1], heads={"join": b"POST ..."})
    try:
        yield line
    finally:
        line.drop(NoAnswer("over"))
        server.close()


@contextmanager
def answering_at_once() -> Iterator[int]:
    """A server in a thread of its own, which answers 200 at once; its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_an_answer_may_come_in_pieces() -> None:
    told = list[Any]()
    async with answering(b"HTTP/1.1 503 No\r\nRetry-Af", b"ter: 2\r\ncontent-length: 4\r\n\r\nno",
                         b"ne") as line:  # fmt: skip
        line.post("join", b"{}", told.append)
        await until(lambda: bool(told))
        line.post("join", b"{}", told.append)
        await until(lambda: len(told) > 1)
    assert told == [Answered(503, b"none", 2.0)] * 2


async def test_who_is_not_answered_is_told_once() -> None:
    told = list[Any]()
    async with answering() as line:
        line.post("join", b"{}", told.append)
        await until(lambda: line.transport is not None)
        line.end_overdue(asyncio.get_running_loop().time())
        assert told == []
        line.end_overdue(asyncio.get_running_loop().time() + 5)
        line.end_overdue(asyncio.get_running_loop().time() + 5)
    assert [type(one) for one in told] == [TimedOut]


def test_what_came_while_the_members_process_was_late_is_read_first() -> None:
    """Else its members drop their lines, all at once, and come back so: a herd of its own making.
    By the loop that the members have, whose timers come before what it reads.
    """
    told = list[Any]()

    async def play(port: int) -> None:
        task = Task(
            web_port=port, redis_port=0, tokens={"g": "t"},
            members=1, number=0, processes=1, spread_s=0.0,
        )  # fmt: skip
        crowd = Crowd.of(task)
        line = crowd.members[0].web
        looking = asyncio.create_task(crowd.look())

        def ask_and_be_late(answer: Any) -> None:
            told.append(answer)
            line.post("join", b"{}", told.append)
            line.asked_s -= WEB_TIMEOUT_S
            time.sleep(2 * LOOK_S)

        line.post("join", b"{}", ask_and_be_late)
        await until(lambda: len(told) == 2)
        looking.cancel()
        line.drop(NoAnswer("over"))

    with answering_at_once() as port, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play(port))
    assert [type(one) for one in told] == [Answered, Answered]


async def test_no_connection_is_an_answer_too() -> None:
    async with answering() as line:
        pass
    told = list[Any]()
    line.post("join", b"{}", told.append)
    await until(lambda: bool(told))
    assert isinstance(told[0], NoAnswer)
    assert not line.is_busy


def test_a_header_is_found_by_its_whole_name() -> None:
    head = b"http/1.1 200 ok\r\nx-content-length: 7\r\ncontent-length: 12"
    assert header(head, b"content-length") == b"12"
    assert header(head, b"retry-after") == b""


# --- members, against the agents' routes and a real Redis


@asynccontextmanager
async def playing(group: Group, store: Any, members: int) -> AsyncIterator[Crowd]:
    by = By("ann", "page")
    token = (await asyncio.to_thread(groups.create_token, group, by)).text
    redis_port = store.connection_pool.connection_kwargs["port"]
    async with serving(AgentApi()) as web:
        task = Task(
            web_port=web.port, redis_port=redis_port, tokens={group.name: token},
            members=members, number=0, processes=1, spread_s=0.0,
        )  # fmt: skip
        crowd = Crowd.of(task)
        await crowd.log_in()
        tasks = [asyncio.create_task(one) for one in (*crowd.listening(), crowd.look())]
        try:
            yield crowd
        finally:
            for one in tasks:
                one.cancel()
            for member in crowd.members:
                member.kill()
            for line in (*crowd.stores, *crowd.ears):
                line.drop(NoAnswer("over"))


async def rebalanced(crowd: Crowd, group: Group) -> None:
    """All who joined have said that they are able, and follow a target that knows them."""
    present = [member for member in crowd.members if member.state.joined]
    await until(lambda: all(m.said[1:2] == (True,) and not m.web.is_busy for m in present))
    await asyncio.to_thread(coordinator.rebalance, group.name)
    epoch = await asyncio.to_thread(epoch_of, group.name)
    await until(lambda: all(follows(member, epoch) for member in present))


def epoch_of(group: str) -> int:
    return run(read_group(Purpose.LOOK), group).meta.target_epoch


def follows(member: LightMember, epoch: int) -> bool:
    target = member.state.target
    return member.is_settled and target is not None and target.target_epoch == epoch


@pytest.mark.django_db(transaction=True)
async def test_light_members_hold_what_the_coordinator_gives_them(group: Group, store: Any) -> None:
    async with playing(group, store, members=3) as crowd:
        *first, third = crowd.members
        for member in first:
            member.join()
        await until(lambda: crowd.status().joined == 2)
        await rebalanced(crowd, group)
        third.join()
        await until(lambda: crowd.status().joined == 3)
        await rebalanced(crowd, group)
        assert third.state.held
        assert (crowd.status().held, crowd.status().settled) == (group.partitions, 3)
        assert crowd.told.count["grants"] == group.partitions + len(third.state.held)
        for member in crowd.members:
            for partition, holding in member.state.held.items():
                lock = store.get(GroupKeys(group.name).lock(partition)).decode()
                assert parse_lock(lock) == (member.name, holding.fence)
        await until(lambda: crowd.told.count["beats"] >= 3)
        assert crowd.told.why == {}


@pytest.mark.django_db(transaction=True)
async def test_who_is_fenced_is_counted_and_joins_anew(group: Group, store: Any) -> None:
    async with playing(group, store, members=1) as crowd:
        (member,) = crowd.members
        crowd.join()
        await until(lambda: crowd.status().joined == 1)
        await rebalanced(crowd, group)
        await asyncio.to_thread(
            run, dashboard_side.evict(member.name, 10**15, Reason.LOST), group.name
        )
        member.beat_due_s = 0.0
        member.beat()
        await until(lambda: crowd.told.count["joined"] == 2)
        await rebalanced(crowd, group)
        assert crowd.told.count["errors"] == 1
        assert "was fenced" in crowd.told.why["errors"]


@pytest.mark.django_db(transaction=True)
async def test_what_was_released_before_a_renew_was_answered_is_not_lost(
    group: Group, store: Any
) -> None:
    async with playing(group, store, members=2) as crowd:
        crowd.join()
        await until(lambda: crowd.status().joined == 2)
        await rebalanced(crowd, group)
        await until(lambda: not any(member.acting for member in crowd.members))
        for member, is_released in zip(crowd.members, (True, False), strict=True):
            claims = claims_of(member.state)
            call = agent_side.renew(member.name, 10_000, claims)
            if is_released:
                member._feed(messages.Released(claims))
            answer = [b"ok", *epochs_of(member), *[0] * len(claims)]
            member._renewed(call, member.now_ms, claims, answer)
            assert crowd.told.count["errors"] == (not is_released)


@pytest.mark.django_db(transaction=True)
async def test_who_waited_beyond_its_next_beat_goes_on_beating(group: Group, store: Any) -> None:
    async with playing(group, store, members=1) as crowd:
        crowd.join()
        await until(lambda: crowd.status().joined == 1)
        await rebalanced(crowd, group)
        [member] = crowd.members
        await until(lambda: not member.web.is_busy)
        told = crowd.told.count["beats"]
        member._forget_timers()
        member.beat_due_s = member.loop.time()  # its timer came while it waited, and is gone
        member._beaten(1, True, member.beat_due_s, NoAnswer("too late"))
        await until(lambda: crowd.told.count["beats"] > told)


def epochs_of(member: LightMember) -> list[bytes]:
    """As a renew answers them."""
    state = member.state
    assert state.target is not None
    target = state.target.epoch
    numbers = (state.incarnation, target.incarnation, target.number, state.mode_epoch)
    return [str(number).encode() for number in numbers]


@pytest.mark.django_db(transaction=True)
async def test_in_a_large_group_they_act_and_tell_beside_each_other_as_agents_do(
    group: Group, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(group, store, members=1) as crowd:
        crowd.join()
        await until(lambda: crowd.status().joined == 1)
        await rebalanced(crowd, group)
        (member,) = crowd.members
        heard = list[float]()
        monkeypatch.setattr(LightMember, "hinted", lambda *_, **__: heard.append(member.now_ms))
        asked_ms, wait_ms = member.now_ms, pacing.called_ms(1_000, member.phase)
        hints._tell([member], [Reason.TARGET], 1_000)
        assert heard == [] and wait_ms > 0
        await until(lambda: bool(heard))
        assert heard[0] - asked_ms >= wait_ms - 1
        hints._tell([member], [Reason.TARGET])
        assert len(heard) == 2, "what it alone is told it acts on at once"
        await until(lambda: not member.web.is_busy)
        member.members, sequence = 10**6, member.sequence
        member.said = ()
        member.beat()
        assert member.sequence == sequence, "it waits for its next heartbeat"
        member.members = 0
        member.beat()
        assert member.sequence == sequence + 1
