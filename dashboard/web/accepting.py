"""The web process's event loop: uvloop's, which takes many new connections in one turn.

libuv, and so uvloop, accepts one connection per listener and turn, and turns are long under load.
When thousands of agents connected at once, the accept queue filled with connections whose agents
had timed out, and nobody else was served. Each further listener on the same socket accepts one more
per turn.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import uvloop

KEPT = "ssl", "backlog", "start_serving", "ssl_handshake_timeout", "ssl_shutdown_timeout"
AT_ONCE = 64  # connections per turn, some 100 us each


class JointServer(asyncio.AbstractServer):
    """Several listeners of the same sockets, as one server."""

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
        create = partial(super().create_server, protocol_factory)
        return await add_listeners(await create(*place, **options), create, options)

    async def create_unix_server(self, protocol_factory: Any, *place: Any, **options: Any) -> Any:
        first: Any = await super().create_unix_server(protocol_factory, *place, **options)
        return await add_listeners(
            first, partial(super().create_unix_server, protocol_factory), options
        )


async def add_listeners(
    first: Any, create: Callable[..., Awaitable[Any]], options: Mapping[str, Any]
) -> JointServer:
    """AT_ONCE - 1 to each socket of `first`, each by `create`. All of them, or none."""
    kept, servers = {name: options[name] for name in KEPT if name in options}, [first]
    try:
        for one in first.sockets:
            for _ in range(AT_ONCE - 1):
                servers.append(await create(sock=duplicate(one), **kept))
    except BaseException:
        JointServer(servers).close()
        raise
    return JointServer(servers)


def duplicate(listener: Any) -> socket.socket:
    """The same listening socket under another file descriptor."""
    return socket.fromfd(listener.fileno(), listener.family, listener.type, listener.proto)
