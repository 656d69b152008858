"""The web process's event loop: uvloop's, which takes many new connections in one turn.

uvloop alone takes one a turn (libuv does), and a turn is the longer the more there is to do: of
thousands of agents that come at once, each then waited behind connections that had been given up
meanwhile, and nobody was answered for as long as they kept trying. Every further listener of one
socket takes one more.
"""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import uvloop

AT_ONCE = 64  # each costs some 100 us: what waits in the queue of the kernel is let in soon


class Together(asyncio.AbstractServer):
    """Listeners of the same sockets."""

    def __init__(self, servers: Sequence[Any]) -> None:
        self._servers = servers

    @property
    def sockets(self) -> Sequence[Any]:
        """Each once."""
        found: Sequence[Any] = self._servers[0].sockets
        return found

    def close(self) -> None:
        for server in self._servers:
            server.close()

    async def wait_closed(self) -> None:
        for server in self._servers:
            await server.wait_closed()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop = self._servers[0].get_loop()
        return loop

    def is_serving(self) -> bool:
        return bool(self._servers[0].is_serving())

    async def start_serving(self) -> None:
        for server in self._servers:
            await server.start_serving()

    async def serve_forever(self) -> None:
        await asyncio.gather(*(server.serve_forever() for server in self._servers))


class Loop(uvloop.Loop):
    async def create_server(self, protocol_factory: Any, *place: Any, **options: Any) -> Any:
        first: Any = await super().create_server(protocol_factory, *place, **options)
        kept = {name: options[name] for name in ("ssl", "backlog") if name in options}
        more = [
            await super(Loop, self).create_server(protocol_factory, sock=again(one), **kept)
            for one in first.sockets
            for _ in range(AT_ONCE - 1)
        ]
        return Together([first, *more])


def again(listener: Any) -> socket.socket:
    """The same one, by another number of this process."""
    return socket.fromfd(listener.fileno(), listener.family, listener.type, listener.proto)
