"""ws/group/<name>/: who may watch, numbered frames, and what happens when a browser is slow."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from django.test import Client

from assignment.types import Partition
from assignment.wire import GroupKeys
from dashboard.asgi import application
from dashboard.live import following, push, reading, watching
from dashboard.live.connection import close_async_client, sync_client
from dashboard.models import Group
from dashboard.push import hub, rights
from dashboard.push.hub import WAITING_MAX, Hub, Watcher, hub_of
from dashboard.push.origin import is_own
from dashboard.push.told import check_of
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scenes import staffed

pytestmark = pytest.mark.django_db(transaction=True)
DEADLINE_S = 10.0
ORIGIN = (b"origin", b"http://localhost")


class Browser(ApplicationCommunicator):
    """Channels' own communicator comes only with a web server that this project does not use."""

    async def texts(self) -> str:
        answer = await self.receive_output(timeout=DEADLINE_S)
        assert answer["type"] == "websocket.send", answer
        return str(answer["text"])

    async def closed(self) -> int:
        """The code; frames that come before are let go."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                answer = await self.receive_output(timeout=DEADLINE_S)
                if answer["type"] == "websocket.close":
                    return int(answer["code"])

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(timeout=DEADLINE_S)


async def connected(
    name: str, cookie: str = "", origin: tuple[bytes, bytes] | None = ORIGIN
) -> Browser | None:
    path = f"/ws/group/{name}/"
    scope = {"type": "websocket", "path": path, "query_string": b"", "subprotocols": []}
    headers = [(b"host", b"localhost"), (b"cookie", cookie.encode())]
    socket = Browser(application, scope | {"headers": headers + ([origin] if origin else [])})
    await socket.send_input({"type": "websocket.connect"})
    answer = await socket.receive_output(timeout=DEADLINE_S)
    return socket if answer["type"] == "websocket.accept" else None


@pytest.fixture
def cookie(db: None) -> str:
    client = Client()
    client.force_login(User.objects.create(username="ann"))
    return f"sessionid={client.cookies['sessionid'].value}"


@pytest.fixture
async def socket(group: Group, cookie: str) -> AsyncIterator[Any]:
    made = await connected(group.name, cookie)
    yield made
    await made.leave()
    await close_async_client()


async def frame_of(socket: Any, kind: str, has: str = "") -> Any:
    """The next frame of this kind that carries `has`."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            frame = json.loads(await socket.texts())
            if frame["type"] == kind and (not has or has in frame):
                return frame


async def test_a_stranger_is_told_so_and_cut_off(group: Group) -> None:
    socket = await connected(group.name)
    assert socket is not None
    assert await socket.closed() == 4403


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "http://localhost:8001", "https://localhost", "null", ""),
        *("http://localhost.evil.example", "http://localhost/", "http://a@localhost", "localhost"),
    ],
)
async def test_another_origin_is_refused(group: Group, cookie: str, origin: str) -> None:
    assert await connected(group.name, cookie, (b"origin", origin.encode())) is None
    assert await connected(group.name, cookie, None) is None


@pytest.mark.parametrize(
    ("scheme", "host", "origin", "own"),
    [
        ("ws", "localhost:8000", "http://localhost:8000", True),
        ("wss", "localhost", "https://localhost:443", True),
        ("ws", "[::1]:8000", "http://[::1]:8000", True),
        ("ws", "LOCALHOST", "http://localhost", True),
        ("wss", "localhost", "http://localhost", False),
        ("ws", "localhost:8000", "http://localhost", False),
        ("ws", "evil.example", "http://evil.example", False),
        ("ws", "localhost", "https://pages.example", True),  # of EVENKEEL_ORIGINS
    ],
)
def test_its_own_origin(settings: Any, scheme: str, host: str, origin: str, own: bool) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "[::1]"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://pages.example"]
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    assert is_own({"scheme": scheme, "headers": headers}) is own


async def test_an_unknown_path_is_refused_without_an_error(group: Group, cookie: str) -> None:
    assert await connected("x/y", cookie) is None


async def test_a_group_that_is_not_there_is_told_so(group: Group, cookie: str) -> None:
    for name in (f"{group.name}-b", "x" * 200):
        socket = await connected(name, cookie)
        assert socket is not None
        assert await socket.closed() == 4404


async def test_sockets_of_a_user_are_bounded(
    group: Group, cookie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "SOCKETS_MAX", 1)
    first = await connected(group.name, cookie)
    await frame_of(
        first, "hello"
    )  # it is accepted before it has its place: so that one can be told
    second = await connected(group.name, cookie)
    assert first is not None and second is not None
    assert await second.closed() == 4429
    await first.leave()
    third = await connected(group.name, cookie)
    assert third is not None
    await frame_of(third, "hello")
    await third.leave()


async def test_hello_then_numbered_changes(socket: Any, group: Group) -> None:
    hello = await frame_of(socket, "hello")
    await sync_to_async(staffed)(group, "a", "b")
    seq, held = hello["seq"], {}
    async with asyncio.timeout(DEADLINE_S):
        while len(held) < 4:
            frame = json.loads(await socket.texts())
            seq += frame["type"] == "delta"
            assert frame["seq"] == seq
            held |= {c[0]: frame["names"][c[1]] for c in frame.get("cells", ()) if c[1] >= 0}
    assert held == {0: "a", 1: "b", 2: "a", 3: "b"}


async def test_a_word_of_the_channel_layer_is_enough(
    socket: Any, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "READ_EVERY_S", 3_600.0)
    monkeypatch.setattr(hub, "FRAME_EVERY_S", 0.05)
    await frame_of(socket, "hello")
    await sync_to_async(FakeAgent(group, "a").start)()
    waiting = asyncio.create_task(frame_of(socket, "delta", "members"))
    while not waiting.done():  # the listener may still be subscribing: a lost word costs nothing
        await sync_to_async(push.push)(group.name, "members")
        await asyncio.wait([waiting], timeout=0.2)
    assert [m["id"] for m in waiting.result()["members"]] == ["a"]


async def test_an_event_of_a_lock_is_enough(
    socket: Any, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No tick, no word of the channel layer: the log alone says when to read."""
    await frame_of(socket, "hello")
    (agent,) = await sync_to_async(staffed)(group, "a")
    monkeypatch.setattr(hub, "READ_EVERY_S", 3_600.0)
    cells: dict[int, Any] = {}
    async with asyncio.timeout(DEADLINE_S):
        while {owner for owner, _ in cells.values()} != {"a"} or len(cells) < 4:
            take(cells, json.loads(await socket.texts()))
        await sync_to_async(agent.release)([Partition(group.stream, 2)])
        while cells[2][0] is not None:
            take(cells, json.loads(await socket.texts()))


def take(cells: dict[int, Any], frame: Any) -> None:
    for number, owner, fence, *_ in frame.get("cells", ()):
        cells[number] = (frame["names"][owner] if owner >= 0 else None, fence)


async def test_beats_carry_the_check(socket: Any, group: Group) -> None:
    beat = await frame_of(socket, "beat", "check")
    snapshot = await asyncio.to_thread(watching.snapshot, group.name)
    assert beat["check"] == check_of(snapshot.partitions)


async def test_redis_away_is_said(socket: Any, group: Group, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    beat = await frame_of(socket, "beat", "problem")
    assert "does not answer" in beat["problem"]


async def frame_with(socket: Any, fits: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(DEADLINE_S):
        while not fits(frame := json.loads(await socket.texts())):
            pass
    return frame


def owners_in(frame: Any) -> list[list[int]]:
    return [cell[:2] for cell in frame.get("cells", ())]


async def test_trouble_with_progress_is_said_and_locks_go_on(
    group: Group, cookie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large group they are read one after the other."""
    monkeypatch.setattr(reading, "PARTITIONS_MAX", 1)
    monkeypatch.setattr(following, "PARTITIONS_MAX", 1)
    [agent] = await sync_to_async(staffed)(group, "a")
    applied, field = GroupKeys(group.name).applied, f"{group.stream}:0"
    await sync_to_async(sync_client().hset)(applied, field, "no number")
    socket: Any = await connected(group.name, cookie)
    try:
        said = await frame_with(socket, lambda frame: "problem" in frame)
        assert "damaged" in said["problem"]
        await sync_to_async(agent.release)([Partition(group.stream, 2)])
        said = await frame_with(socket, lambda frame: [2, -1] in owners_in(frame))
        assert "damaged" in said["problem"]
        await sync_to_async(sync_client().hdel)(applied, field)
        await frame_with(socket, lambda frame: "problem" not in frame)
    finally:
        await socket.leave()
        await close_async_client()


async def test_one_hub_for_all_watchers_and_none_for_nobody(group: Group, cookie: str) -> None:
    sockets = [await connected(group.name, cookie) for _ in range(3)]
    for socket in sockets:
        await frame_of(socket, "hello")
    assert hub_of(group.name).watchers == 3
    for socket in sockets:
        assert socket is not None
        await socket.leave()
    assert hub_of(group.name).watchers == 0
    assert hub_of(group.name)._running is None


async def test_a_session_that_ended_ends_the_socket(
    group: Group, cookie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "LOOK_EVERY_S", 0.05)
    socket = await connected(group.name, cookie)
    await sync_to_async(User.objects.update)(is_active=False)
    assert socket is not None
    assert await socket.closed() == 4403
    await socket.leave()


async def test_a_group_that_went_ends_its_sockets(
    group: Group, cookie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "LOOK_EVERY_S", 0.05)
    socket = await connected(group.name, cookie)
    await sync_to_async(Group.objects.all().delete)()
    assert socket is not None
    assert await socket.closed() == 4404
    await socket.leave()


async def test_a_socket_that_is_slow_to_close_keeps_no_other_open(
    group: Group, cookie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "LOOK_EVERY_S", 0.05)
    stuck = asyncio.Event()

    async def never(code: int) -> None:
        await stuck.wait()

    first = await connected(group.name, cookie)
    assert first is not None
    await frame_of(first, "hello")
    (seat,) = rights.rights()._open.values()
    rights.rights()._open = {never: seat, **rights.rights()._open}
    await sync_to_async(User.objects.update)(is_active=False)
    assert await first.closed() == 4403
    stuck.set()
    await first.leave()


async def test_who_talks_much_is_cut_off(socket: Any) -> None:
    await socket.send_input({"type": "websocket.receive", "text": "x" * 2_000})
    assert await socket.closed() == 4429


async def test_a_slow_browser_gets_one_word_instead_of_all_that_waited() -> None:
    watcher = Watcher()
    for n in range(WAITING_MAX):
        watcher.tell(f"frame {n}", "resync")
    assert watcher.waiting.qsize() == WAITING_MAX
    watcher.tell("one more", "resync")
    assert [watcher.waiting.get_nowait() for _ in range(watcher.waiting.qsize())] == ["resync"]


async def test_watchers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "WATCHERS_MAX", 0)
    with pytest.raises(hub.TooManyWatchers):
        Hub("g", asyncio.Semaphore(1)).join()
