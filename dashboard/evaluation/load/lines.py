"""Connections of light members: callbacks instead of streams, for one process plays thousands.

What is asked is answered exactly once: by what the server said, or by NoAnswer. Whoever owns a
line looks now and then for what is overdue (`end_overdue`); a timer for each question would cost
as much as the question. Knows no member.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import hiredis

from assignment.rights import login_of
from assignment.scripts.values import Call
from assignment.wire import API_PREFIX, GroupKeys
from dashboard.evaluation.beside.speaking import HOST, NoAnswer, pack
from dashboard.live.scripts import script

T = TypeVar("T")
WEB_TIMEOUT_S = 4.0  # an agent waits one for a connection and three for the answer
REDIS_TIMEOUT_S = 5.0  # half of a lease
HEAD_END = b"\r\n\r\n"
VERBS = ("join", "heartbeat")


class TimedOut(NoAnswer):
    """Nothing came in time."""


@dataclass(frozen=True, slots=True)
class Answered:
    """`retry_after_s`: what the server asked for, None when nothing."""

    status: int
    body: bytes
    retry_after_s: float | None = None


Told = Callable[[Answered | NoAnswer], None]


class _Socket(asyncio.Protocol):
    """One connection of a line: what comes on one that was given up concerns nobody."""

    def __init__(self, line: "_Line") -> None:
        self.line = line

    def connection_made(self, transport: Any) -> None:
        if self.line.socket is self:
            self.line.transport = transport
            self.line.opened()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.line.socket is self:
            self.line.heard(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.line.socket is self:
            self.line.drop(NoAnswer(f"the connection ended: {exc!r}"))


@dataclass(slots=True, kw_only=True, eq=False)
class _Line(ABC):
    """Made when it is needed, and again when it ended."""

    port: int
    socket: _Socket | None = None
    transport: Any = None
    opening: Any = None

    def open(self) -> None:
        self.socket = _Socket(self)
        self.opening = asyncio.get_running_loop().create_task(self._open(self.socket))

    async def _open(self, socket: _Socket) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: socket, HOST, self.port)
        except OSError as error:
            if self.socket is socket:
                self.drop(NoAnswer(f"no connection: {error}"))

    @abstractmethod
    def opened(self) -> None: ...

    @abstractmethod
    def heard(self, data: bytes) -> None: ...

    def drop(self, why: NoAnswer) -> None:
        """Ends the connection; whoever waits is told why."""
        if self.transport is not None:
            self.transport.abort()
        self.socket = self.transport = None


@dataclass(slots=True, kw_only=True, eq=False)
class WebLine(_Line):
    """To the agents' routes of a group, one request at a time, as an agent's."""

    heads: dict[str, bytes]
    buffer: bytes = b""
    request: bytes = b""
    told: Told | None = None
    asked_s: float = 0.0

    @classmethod
    def to(cls, port: int, heads: dict[str, bytes]) -> "WebLine":
        return cls(port=port, heads=heads)

    @property
    def is_busy(self) -> bool:
        return self.told is not None

    def post(self, verb: str, body: bytes, told: Told) -> None:
        assert self.told is None
        self.told, self.asked_s = told, asyncio.get_running_loop().time()
        self.request = b"%b%d\r\n\r\n%b" % (self.heads[verb], len(body), body)
        if self.transport is not None:
            self.transport.write(self.request)
        elif self.socket is None:
            self.open()

    def opened(self) -> None:
        if self.told is not None:
            self.transport.write(self.request)

    def heard(self, data: bytes) -> None:
        data = self.buffer + data if self.buffer else data
        end = data.find(HEAD_END)
        head = data[:end].lower() if end >= 0 else b""
        start = end + len(HEAD_END)
        if end < 0 or len(data) < start + int(header(head, b"content-length") or 0):
            self.buffer = data
            return
        self.buffer = b""
        after = header(head, b"retry-after")
        answer = Answered(int(head[9:12]), data[start:], float(after) if after else None)
        told, self.told = self.told, None
        if b"connection: close" in head:
            self.drop(NoAnswer("the server closes"))
        if told is not None:
            told(answer)

    def drop(self, why: NoAnswer) -> None:
        _Line.drop(self, why)
        self.buffer = b""
        told, self.told = self.told, None
        if told is not None:
            told(why)

    def end_overdue(self, now_s: float) -> None:
        if self.told is not None and now_s - self.asked_s > WEB_TIMEOUT_S:
            self.drop(TimedOut(f"no answer within {WEB_TIMEOUT_S:g} s"))


def header(head: bytes, name: bytes) -> bytes:
    """Of a head in lower case; empty: it is not there."""
    found = head.find(b"\r\n" + name + b":")
    if found < 0:
        return b""
    begin = found + len(name) + 3
    end = head.find(b"\r\n", begin)
    return head[begin : end if end >= 0 else len(head)].strip()


def heads_of(group: str, token: str) -> dict[str, bytes]:
    """By verb, up to the length of the body."""
    return {
        verb: (
            f"POST {API_PREFIX}/{group}/{verb} HTTP/1.1\r\nHost: {HOST}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: "
        ).encode()
        for verb in VERBS
    }


Heard = Callable[[Any], None]  # an answer, hiredis.ReplyError or NoAnswer


@dataclass(slots=True, kw_only=True, eq=False)
class RedisLine(_Line):
    """To Redis as the user of a group's token; members share it, and what they ask in one turn of
    the loop goes together.
    """

    group: str
    token: str
    parser: Any = field(default_factory=hiredis.Reader)
    outgoing: list[bytes] = field(default_factory=list)
    waiting: deque[tuple[Heard, float]] = field(default_factory=deque)

    def send(self, command: bytes, heard: Heard) -> None:
        loop = asyncio.get_running_loop()
        if self.socket is None:
            self.open()
            self._append(pack("AUTH", *login_of(self.token)), self._logged_in)
        elif not self.outgoing and self.transport is not None:
            loop.call_soon(self.flush)
        self._append(command, heard)

    def _append(self, command: bytes, heard: Heard) -> None:
        self.outgoing.append(command)
        self.waiting.append((heard, asyncio.get_running_loop().time()))

    def _logged_in(self, answer: Any) -> None:
        if isinstance(answer, hiredis.ReplyError):
            self.drop(NoAnswer(f"no login: {answer}"))

    def opened(self) -> None:
        self.flush()

    def flush(self) -> None:
        if self.transport is not None and self.outgoing:
            self.transport.write(b"".join(self.outgoing))
            self.outgoing.clear()

    def heard(self, data: bytes) -> None:
        self.parser.feed(data)
        while self.waiting and (answer := self.parser.gets()) is not False:
            self.waiting.popleft()[0](answer)

    def drop(self, why: NoAnswer) -> None:
        _Line.drop(self, why)
        self.parser = hiredis.Reader()
        self.outgoing.clear()
        waiting, self.waiting = self.waiting, deque()
        for heard, _ in waiting:
            heard(why)

    def end_overdue(self, now_s: float) -> None:
        if self.waiting and now_s - self.waiting[0][1] > REDIS_TIMEOUT_S:
            self.drop(TimedOut(f"no answer within {REDIS_TIMEOUT_S:g} s"))

    async def ask(self, *commands: Iterable[Any]) -> list[Any]:
        """The answers, in order. Raises NoAnswer and hiredis.ReplyError."""
        made = [asyncio.get_running_loop().create_future() for _ in commands]
        for command, future in zip(commands, made, strict=True):
            self.send(pack(*command), partial(_settle, future))
        answers = [await future for future in made]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def command_of(self, call: Call[Any]) -> tuple[Any, ...]:
        meta = GroupKeys(self.group).meta
        return "EVALSHA", script(call.script).sha, 1, meta, *call.args

    async def run(self, call: Call[T]) -> T:
        """Raises NoAnswer, hiredis.ReplyError, and what reading the answer raises."""
        (answer,) = await self.ask(self.command_of(call))
        return call.read(answer)


def _settle(future: "asyncio.Future[Any]", answer: Any) -> None:
    if not future.done():
        future.set_result(answer)


def raise_bug(task: "asyncio.Task[None]") -> None:
    """To the loop's handler, which ends the process; a task alone would only be logged."""
    if not task.cancelled():
        task.result()
