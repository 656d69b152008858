"""The web process's event loop: uvloop's, which takes many new connections in one turn.

uvloop alone takes one a turn (libuv does), and a turn is the longer the more there is to do: of
thousands of agents that come at once, each then waited behind connections that had been given up
meanwhile, and nobody was answered for as long as they kept trying. Every further listener of one
socket takes one more.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import uvloop

KEPT = "ssl", "backlog", "start_serving", "ssl_handshake_timeout", "ssl_shutdown_timeout"
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
        return await joined(first, partial(super().create_server, protocol_factory), options)

    async def create_unix_server(self, protocol_factory: Any, *place: Any, **options: Any) -> Any:
        first: Any = await super().create_unix_server(protocol_factory, *place, **options)
        return await joined(first, partial(super().create_unix_server, protocol_factory), options)


async def joined(
    first: Any, make: Callable[..., Awaitable[Any]], options: Mapping[str, Any]
) -> Together:
    """With further ones as `make` makes them. All of them, or none."""
    kept, servers = {name: options[name] for name in KEPT if name in options}, [first]
    try:
        for one in first.sockets:
            for _ in range(AT_ONCE - 1):
                servers.append(await make(sock=again(one), **kept))
    except BaseException:
        Together(servers).close()
        raise
    return Together(servers)


def again(listener: Any) -> socket.socket:
    """The same one, by another number of this process."""
    return socket.fromfd(listener.fileno(), listener.family, listener.type, listener.proto)
