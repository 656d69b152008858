"""Many small script calls, one trip: those within some milliseconds share a pipeline (backend.md).
The fewer there are the longer they are gathered, for a trip costs as much CPU as many calls.

One Batch per event loop and server. Bounded: what does not fit is refused, so that a slow Redis
cannot fill the memory.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol, Self

import redis
from hiredis import pack_command

from assignment.scripts.values import Arguments
from assignment.wire import GroupKeys
from dashboard.live import deadline
from dashboard.live.connection import (
    ANSWER_TIMEOUT_S,
    GroupDamaged,
    StoreUnavailable,
    async_client,
    reaching_redis,
)
from dashboard.live.scripts import Script

GATHER_S = 0.008  # who is alone waits so long for others
ENOUGH = 60  # calls by which a trip is paid for: it costs as much CPU as ten
GATHERED_MAX = 5  # times GATHER_S, a seventieth of the time between two heartbeats
BUSY = 5  # calls of a trip: a thousand agents
# Of one pipeline. Under thousands of connections a turn of the event loop takes a second when much
# is late, and a trip two of them: fewer at once would be fewer than come meanwhile, for ever.
CALLS_MAX = 5_000
JOINS_AT_ONCE = 100  # of them: each costs Redis as much as four heartbeats, which come behind it
JOINS_SHARE = 0.2  # of a trip, where that is more
JOINS_WAITING_MAX = 500  # are answered within a second; more than that come again
WAITING_MAX = 20_000  # twice the agents aimed at; more means that Redis does not keep up
TURNS_READ = 2  # of the loop: what came is read in the first one, and calls in the second
STOOD_STILL_S = 0.1  # late: others had the processor; then as long is given to read the answers,
STOOD_STILL_TURNS = 5  # and so many turns of the loop, for under load one takes longer than that
GROUPS_KEPT = 10_000  # whose keys are named in each call; twice the groups aimed at
END = b"\r\n"  # of a line
RATE_WINDOW_MS = 2_000  # a counter of one second outlives it


class Answer(Protocol):
    """Who waits for what a call is answered: a future, or who acts on it at once."""

    def done(self) -> bool: ...
    def set_result(self, result: tuple[Any, int], /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


class Counted(NamedTuple):
    """`requests` to be counted in Redis under `name`, for a second."""

    name: str
    requests: int


NOT_COUNTED = Counted("", 0)


class Overloaded(StoreUnavailable):
    """More calls wait for Redis than may."""


class NotInTime(StoreUnavailable):
    """No answer within deadline.REQUEST_S. What was sent already may still be carried out."""


class Wanted(NamedTuple):
    """What is to be carried out: `command` runs the script, and is what Redis is sent."""

    script: Script
    group: str
    command: bytes

    @classmethod
    def of(cls, script: Script, group: str, arguments: Arguments) -> Self:
        return cls(script, group, _packed("EVALSHA", script.sha, 2, *_keys_of(group), *arguments))


@dataclass(slots=True)
class Waiting:
    """`read` raises what is told to `answer` instead."""

    read: Callable[[], Wanted]
    counted: Counted
    answer: Answer
    asked_s: float  # as the loop counts


@dataclass(slots=True)
class Call:
    wanted: Wanted
    counted: Counted
    answer: Answer
    asked_s: float  # as Waiting's
    url: str  # as Batch's


class Batch:
    """Whoever is a member comes first: of those that wait to join some go with each trip, where
    the others leave room. `url`: of its server, where that is not the only one. `is_alone`: whether
    nobody but those who call is served now, so that the event loop may stand still.
    """

    def __init__(self, url: str = "", is_alone: Callable[[], bool] = lambda: False) -> None:
        self._url, self._is_alone = url, is_alone
        self._waiting: deque[Waiting] = deque()
        self._joins: deque[Waiting] = deque()
        self._running: asyncio.Task[None] | None = None
        self._until: deque[tuple[float, Answer]] = deque()
        self._timer: asyncio.Handle | None = None  # one for all: a heartbeat is cheap
        self._carried = 0  # by the last trip
        self._lag_s = 0.0  # of the last trip: until the first of its calls was answered

    @property
    def lag_s(self) -> float:
        """How late calls are answered: those of the last trip, or the first one that waits."""
        if not self._waiting:
            return self._lag_s
        return max(self._lag_s, asyncio.get_running_loop().time() - self._waiting[0].asked_s)

    async def call(
        self,
        script: Script,
        group: str,
        arguments: Arguments,
        counted: Counted = NOT_COUNTED,
        joins: bool = False,
    ) -> tuple[Any, int]:
        """The script's answer; what all processes have counted under that name, 0 when this call
        counted nothing. `joins`: whoever asks is no member yet. Raises StoreUnavailable, NotInTime
        and Overloaded among it.
        """
        answer = asyncio.get_running_loop().create_future()
        wanted = Wanted.of(script, group, arguments)
        self.put(lambda: wanted, counted, answer, joins=joins)
        found: tuple[Any, int] = await answer
        return found

    def put(
        self,
        read: Callable[[], Wanted],
        counted: Counted,
        answer: Answer,
        *,
        joins: bool = False,
    ) -> None:
        """What `call` returns or raises is told to `answer`, but Overloaded, which is raised.
        `read`, whose errors are told too, has its turn when the trip begins: to read many in a row
        instead of each when it comes saves a fourteenth of what a heartbeat costs.
        """
        waiting, most = (self._joins, JOINS_WAITING_MAX) if joins else (self._waiting, WAITING_MAX)
        if len(waiting) >= most:
            raise Overloaded(f"{len(waiting)} calls wait for Redis")
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        waiting.append(Waiting(read, counted, answer, now_s))
        self._limit(answer, loop, now_s)
        if self._running is None:
            self._running = loop.create_task(self._run())

    def _limit(self, answer: Answer, loop: asyncio.AbstractEventLoop, now_s: float) -> None:
        """The first one asked is the first one late."""
        while self._until and self._until[0][1].done():
            self._until.popleft()
        self._until.append((now_s + deadline.REQUEST_S, answer))
        if self._timer is None:
            self._timer = loop.call_at(self._until[0][0], self._give_up, loop)

    def _give_up(self, loop: asyncio.AbstractEventLoop, turns: int | None = None) -> None:
        """`turns`: of the loop, which may still read what was answered, for this process itself was
        late; None: whether it was is to be seen.
        """
        now_s, self._timer = loop.time(), None
        if turns is None and self._until and now_s - self._until[0][0] > STOOD_STILL_S:
            look = partial(self._give_up, loop, STOOD_STILL_TURNS)
            self._timer = loop.call_later(STOOD_STILL_S, look)
            return
        if turns:
            self._timer = loop.call_soon(self._give_up, loop, turns - 1)
            return
        while self._until and (self._until[0][0] <= now_s or self._until[0][1].done()):
            _, answer = self._until.popleft()
            if not answer.done():
                why = f"Redis did not answer within {deadline.REQUEST_S:g} s"
                answer.set_exception(NotInTime(why))
        if self._until:
            self._timer = loop.call_at(self._until[0][0], self._give_up, loop)

    async def _run(self) -> None:
        try:
            while self._waiting or self._joins:
                await self._gather()
                taken = _taken(self._waiting, CALLS_MAX)
                joins = max(JOINS_AT_ONCE, int(JOINS_SHARE * len(taken)))
                taken += _taken(self._joins, min(joins, CALLS_MAX - len(taken)))
                self._carried = len(taken)
                if calls := [*self._read(taken)]:
                    await _carry_out(calls)
                    self._lag_s = asyncio.get_running_loop().time() - calls[0].asked_s
        finally:
            self._running = None

    def _read(self, taken: Iterable[Waiting]) -> Iterator[Call]:
        """Whoever gave up asks again: what is old must not come after what is new."""
        for one in taken:
            if one.answer.done():
                continue
            try:
                wanted = one.read()
            except Exception as error:
                one.answer.set_exception(error)
            else:
                yield Call(wanted, one.counted, one.answer, one.asked_s, self._url)

    async def _gather(self) -> None:
        """Each request that comes meanwhile wakes the event loop, whose caches others have emptied:
        of many a tenth of what they cost. So where many come, few of them wait yet, and nothing
        else has to be done, it stands still instead, and finds them all together.
        """
        for _ in range(GATHERED_MAX):
            is_behind = len(self._waiting) + len(self._joins) >= ENOUGH
            if self._carried >= BUSY and not is_behind and self._is_alone():
                _stand_still()
                for _ in range(TURNS_READ):
                    await asyncio.sleep(0)
            else:
                await asyncio.sleep(GATHER_S)
            if not 1 < len(self._waiting) + len(self._joins) < ENOUGH:
                return


def _stand_still() -> None:
    """Threads go on."""
    time.sleep(GATHER_S)


def _taken(waiting: deque[Waiting], most: int) -> list[Waiting]:
    return [waiting.popleft() for _ in range(min(most, len(waiting)))]


async def _carry_out(calls: list[Call]) -> None:
    try:
        answers, counts = await _send(calls)
        again = [i for i, a in enumerate(answers) if isinstance(a, redis.exceptions.NoScriptError)]
        if again:
            await _load({calls[i].wanted.script for i in again}, calls[0].url)
            repeated, _ = await _send([calls[i] for i in again], count=False)
            for i, answer in zip(again, repeated, strict=True):
                answers[i] = answer
    except (StoreUnavailable, redis.RedisError) as error:
        answers, counts = [error] * len(calls), {}
    for call, answer in zip(calls, answers, strict=True):
        if call.answer.done():  # whoever asked has gone
            continue
        if isinstance(answer, Exception):
            call.answer.set_exception(_as_unavailable(call, answer))
        else:
            call.answer.set_result((answer, counts.get(call.counted.name, 0)))


async def _send(calls: list[Call], count: bool = True) -> tuple[list[Any], dict[str, int]]:
    commands = [call.wanted.command for call in calls]
    counters = Counter[str]()
    for name, requests in [call.counted for call in calls if count and call.counted.requests]:
        counters[name] += requests
    for name, requests in counters.items():
        commands += [_packed("INCRBY", name, requests), _packed("PEXPIRE", name, RATE_WINDOW_MS)]
    url = calls[0].url
    with reaching_redis(url):
        answers = await _exchanged(commands, url)
    counts = zip(counters, answers[len(calls) :: 2], strict=True)
    known = {name: value for name, value in counts if isinstance(value, int)}
    return answers[: len(calls)], known


def around(script: Script, group: str, arguments: Arguments, place: int) -> tuple[bytes, bytes]:
    """What a call's command has before the argument at that place, and after it."""
    command = Wanted.of(script, group, arguments).command
    _, _, after = _packed(*arguments[place + 1 :]).partition(END)
    _, _, own = _packed(arguments[place]).partition(END)
    return command[: len(command) - len(own) - len(after)], after


def _packed(*words: str | int | bytes) -> bytes:
    """A command: how many words it has, and each with its length."""
    packed: bytes = pack_command(words)  # type: ignore[arg-type]
    return packed


@lru_cache(GROUPS_KEPT)
def _keys_of(group: str) -> tuple[str, str]:
    return GroupKeys(group).of_script


async def _exchanged(commands: list[bytes], url: str) -> list[Any]:
    """The answers, errors among them. One write, one deadline for all; packed by hiredis, since the
    client's own pipeline costs as much CPU again as everything else in a heartbeat.
    """
    pool = async_client(url).connection_pool
    connection = await pool.get_connection()
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await connection.send_packed_command(b"".join(commands), check_health=False)
            return list(await connection.read_responses(len(commands)))
    except BaseException:  # answers that nobody read must not meet the next batch
        await connection.disconnect(nowait=True)
        raise
    finally:
        await pool.release(connection)


async def _load(scripts: set[Script], url: str) -> None:
    with reaching_redis(url):
        for script in scripts:
            await async_client(url).script_load(script.text)


def _as_unavailable(call: Call, error: Exception) -> Exception:
    try:
        with reaching_redis(call.url):
            raise error
    except redis.ResponseError as refused:  # a script fails over what the group's keys hold
        return GroupDamaged(call.wanted.group, refused)
    except Exception as translated:  # the same error, or StoreUnavailable instead of it
        return translated
