"""A web server with a test's own bounds, and connections to it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import uvicorn

from dashboard.web.protocols import Awaited, HttpProtocol, SocketProtocol
from dashboard.web.visitors import Visitors, said_who

DEADLINE_S = 20.0
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
Answer = tuple[int, bytes]


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Says how many bytes came; /known is somebody's, /large is too much for any buffer."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        size, more = size + len(message["body"]), message["more_body"]
    if scope["path"] == "/known":
        said_who(scope, "user 1")
    body = str(size).encode() if scope["path"] != "/large" else bytes(2**25)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def echo_after(released: asyncio.Event) -> Any:
    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await released.wait()
        await echo(scope, receive, send)

    return app


class Web:
    """A server of a test's own bounds, and connections to it."""

    def __init__(self, port: int, kind: type[HttpProtocol]) -> None:
        self.port, self.kind = port, kind
        self.opened: list[Connection] = []

    @property
    def strangers(self) -> int:
        return self.kind.visitors.count

    async def open(self, sent: bytes = b"", source: str = "127.0.0.1") -> "Connection":
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=(source, 0)
        )
        self.opened.append(Connection(reader, writer))  # one that nobody keeps is closed
        writer.write(sent)
        return self.opened[-1]


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, sent: bytes) -> Answer:
        self.writer.write(sent)
        return await self.answer()

    async def answer(self) -> Answer:
        async with asyncio.timeout(DEADLINE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            size = next(int(x.split(b":")[1]) for x in lines if x.startswith(b"content-length:"))
            return int(head.split()[1]), await self.reader.readexactly(size)

    async def ended(self) -> bytes:
        """Everything until the server ends the connection."""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionError):
                return await self.reader.read()
            return b""

    async def takes_no_end(self) -> None:
        """What is sent without end is cut off."""
        with suppress(ConnectionError):
            for _ in range(1_000):
                self.writer.write(b"x" * 2**16)
                await self.writer.drain()
            raise AssertionError("60 MB were taken")


@asynccontextmanager
async def serving(
    app: Any = echo,
    visitors: Visitors | None = None,
    kind: type[HttpProtocol] = HttpProtocol,
    **seconds: float,
) -> AsyncIterator[Web]:
    class Bounded(kind):  # type: ignore[misc, valid-type]
        pass

    Bounded.visitors = visitors or Visitors()
    Bounded.seconds = HttpProtocol.seconds | {Awaited[n]: s for n, s in seconds.items()}
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=Bounded,
                ws=SocketProtocol,
                lifespan="off",
                log_level="error",
                timeout_graceful_shutdown=1,
                timeout_keep_alive=600,
            )
        )
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            await until(lambda: server.started)
            yield Web(listening.getsockname()[1], Bounded)
        finally:
            server.should_exit = True
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)


def post(path: str, body: bytes, *headers: bytes) -> bytes:
    lines = [b"POST %s HTTP/1.1" % path.encode(), b"Host: localhost", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])
