"""How many new connections the web process takes in one turn of its loop, and how it ends them."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvicorn
import uvloop

from dashboard.demo.embedded_redis import free_port
from dashboard.web import __main__ as web
from dashboard.web import accepting
from dashboard.web.accepting import AT_ONCE, Loop, duplicate

T = TypeVar("T")
COMING = 200
HOST = "127.0.0.1"
DEADLINE_S = 10.0
TURN_S = 0.005  # as long as one takes where there is much to do


def played(new: Callable[[], asyncio.AbstractEventLoop], scene: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(DEADLINE_S):
            return await scene()

    with asyncio.Runner(loop_factory=new) as runner:
        return runner.run(bounded())


async def taken() -> list[int]:
    """In which turn each of COMING connections was taken, which are there before the first."""
    loop, turn, found = asyncio.get_running_loop(), 0, list[int]()

    class Visit(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            found.append(turn)

    server = await loop.create_server(Visit, HOST, 0, backlog=2 * COMING)
    address = server.sockets[0].getsockname()
    visitors = [socket.create_connection(address) for _ in range(COMING)]
    try:
        while len(found) < COMING:
            time.sleep(TURN_S)
            turn += 1
            await asyncio.sleep(0)
    finally:
        for visitor in visitors:
            visitor.close()
        server.close()
        await server.wait_closed()
    return found


def test_a_herd_is_let_in_within_a_few_turns() -> None:
    turns = Counter(played(Loop, taken))
    assert sum(turns.values()) == COMING
    assert max(turns.values()) > AT_ONCE // 2, "many in one turn"
    assert len(turns) < COMING // 4


def test_of_uvloop_alone_each_turn_takes_one() -> None:
    """When that changes, the further listeners are for nothing."""
    assert max(Counter(played(uvloop.new_event_loop, taken)).values()) == 1


async def ended() -> tuple[list[Any], bool, bool]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, HOST, 0)
    found, serves = [one.getsockname() for one in server.sockets], server.is_serving()
    await server.start_serving()
    assert server.get_loop() is loop
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0.1)
    try:
        socket.create_connection(found[0], timeout=DEADLINE_S).close()
    except ConnectionRefusedError:
        return found, serves, True
    return found, serves, False


def test_all_listeners_end_together_and_are_named_once() -> None:
    found, serves, is_refused = played(Loop, ended)
    assert len(found) == 1 and serves
    assert is_refused, "one of them listens still"


async def spoken(make: Callable[[Any], Awaitable[Any]], visit: Callable[[Any], None]) -> bytes:
    """What the last of some visitors said, to a server that `make` makes; they come by `visit`."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    class Visit(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            heard.put_nowait(data)

    server = await make(Visit)
    for _ in range(2 * AT_ONCE):
        await asyncio.to_thread(visit, server.sockets[0].getsockname())
        said = await heard.get()
    server.close()
    await server.wait_closed()
    return said


def speak(family: int, address: Any) -> None:
    with socket.socket(family) as visitor:
        visitor.connect(address)
        visitor.sendall(b"anything")


async def given() -> bytes:
    with socket.create_server((HOST, 0)) as made:
        loop = asyncio.get_running_loop()
        return await spoken(
            lambda visit: loop.create_server(visit, sock=made, backlog=5),
            partial(speak, socket.AF_INET),
        )


def test_a_socket_that_was_given_is_taken_from() -> None:
    """As where several processes share a port."""
    assert played(Loop, given) == b"anything"


def test_a_socket_of_this_machine_is_too(tmp_path: Path) -> None:
    path = str(tmp_path / "s")

    async def scene() -> bytes:
        loop = asyncio.get_running_loop()
        return await spoken(
            lambda visit: loop.create_unix_server(visit, path=path, backlog=5),
            partial(speak, socket.AF_UNIX),
        )

    assert played(Loop, scene) == b"anything"


def test_where_one_cannot_be_made_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when all files that the process may open are."""
    made = list[socket.socket]()

    def some(listener: Any) -> socket.socket:
        if len(made) > 3:
            raise OSError("too many open files")
        made.append(duplicate(listener))
        return made[-1]

    async def scene() -> None:
        port = free_port()
        with pytest.raises(OSError, match="too many"):
            await asyncio.get_running_loop().create_server(asyncio.Protocol, HOST, port)
        await asyncio.sleep(0.1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port), timeout=DEADLINE_S)

    monkeypatch.setattr(accepting, "duplicate", some)
    played(Loop, scene)


def test_the_web_process_has_this_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    named = list[Any]()
    monkeypatch.setattr(uvicorn.main, "callback", lambda **options: named.append(options["loop"]))
    monkeypatch.setattr(web.sys, "argv", ["web", "--port", "1"])
    with pytest.raises(SystemExit):
        web.main()
    config = uvicorn.Config(web.APPLICATION, loop=named[0])
    assert config.get_loop_factory() is Loop
