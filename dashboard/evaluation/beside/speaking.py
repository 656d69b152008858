"""Connections of small clients, many in one process: HTTP to the dashboard, RESP to Redis."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import hiredis

from assignment.rights import login_of
from assignment.scripts.values import Call
from assignment.wire import API_PREFIX, GroupKeys
from dashboard.live.scripts import script

HOST = "127.0.0.1"
TIMEOUT_S = 10.0
READ_BYTES = 2**18
REPLY_MAX = 2**22
T = TypeVar("T")


def pack(*words: Any) -> bytes:
    """A command as Redis takes it."""
    return bytes(hiredis.pack_command(words))


class NoAnswer(Exception):
    """The connection ended, nothing came in time, or what came is no answer."""


@dataclass(slots=True)
class _Kept:
    """A connection that is made when it is needed, and again when it ended."""

    port: int
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # one question at a time

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(HOST, self.port, limit=REPLY_MAX)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None

    async def kept(self, work: Callable[[], Awaitable[T]]) -> T:
        """Raises NoAnswer."""
        try:
            async with self.turn, asyncio.timeout(TIMEOUT_S):
                if self.reader is None or self.reader.at_eof():  # the server ends idle ones
                    await self.open()
                return await work()
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError) as error:
            self.close()
            raise NoAnswer(repr(error)) from error
        except BaseException:  # what nobody read must not be the next answer
            self.close()
            raise


@dataclass(slots=True)
class Web(_Kept):
    """To the agents' routes of one group, with its token."""

    group: str = ""
    token: str = ""

    def request(self, verb: str, body: bytes) -> bytes:
        head = (
            f"POST {API_PREFIX}/{self.group}/{verb} HTTP/1.1\r\nHost: {HOST}\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def post(self, verb: str, body: bytes) -> tuple[int, bytes]:
        return await self.send(self.request(verb, body))

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer. Raises NoAnswer."""
        return await self.kept(lambda: self._exchange(request))

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        assert self.reader is not None and self.writer is not None
        self.writer.write(request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        body = await self.reader.readexactly(length)
        if b"connection: close" in head:
            self.close()
        return int(head.split(b" ")[1]), body


@dataclass(slots=True)
class Store(_Kept):
    """To Redis, as the user of a token."""

    token: str = ""
    parser: Any = field(default_factory=hiredis.Reader)

    async def open(self) -> None:
        await _Kept.open(self)
        self.parser = hiredis.Reader()
        await self._exchange([pack("AUTH", *login_of(self.token))])

    async def ask(self, *words: Any) -> Any:
        """The answer. Raises NoAnswer, and what Redis answered if that is an error."""
        (answer,) = await self.send(pack(*words))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run(self, call: Call[T], group: str) -> T:
        meta = GroupKeys(group).meta
        return call.read(await self.ask("EVALSHA", script(call.script).sha, 1, meta, *call.args))

    async def send(self, *commands: bytes) -> list[Any]:
        """The answers, errors among them. Raises NoAnswer."""
        return await self.kept(lambda: self._exchange(list(commands)))

    async def _exchange(self, commands: list[bytes]) -> list[Any]:
        assert self.reader is not None and self.writer is not None
        self.writer.writelines(commands)
        found = list[Any]()
        while len(found) < len(commands):
            answer = self.parser.gets()
            if answer is False:
                read = await self.reader.read(READ_BYTES)
                if not read:
                    raise EOFError("Redis ended the connection")
                self.parser.feed(read)
            else:
                found.append(answer)
        return found


async def every(
    seconds: float, work: Callable[[], Awaitable[object]], first_s: float = 0.0
) -> None:
    """For ever, at that pace; what came too late is left out."""
    loop = asyncio.get_running_loop()
    due_s = loop.time() + first_s
    while True:
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        with suppress(NoAnswer):
            await work()
        due_s = max(due_s + seconds, loop.time())
