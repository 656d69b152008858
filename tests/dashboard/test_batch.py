"""Calls that share a trip to Redis: how long they are gathered, who comes first, who gives up."""

import asyncio
import socket
import time
from functools import partial
from typing import Any

import pytest
import uvloop

from dashboard.live import batch
from dashboard.live.batch import (
    CALLS_MAX,
    ENOUGH,
    GATHERED_MAX,
    JOINS_AT_ONCE,
    NOT_COUNTED,
    Batch,
    NotInTime,
    Overloaded,
    Wanted,
)
from dashboard.live.batches import Batches
from dashboard.live.scripts import script


async def test_how_late_calls_are_answered_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_s: list[float] = []

    async def carried_out(calls: list[Any]) -> None:
        waited_s.append(asyncio.get_running_loop().time() - calls[0].asked_s)
        calls[0].answer.set_result((b"", 0))

    monkeypatch.setattr(batch, "_carry_out", carried_out)
    made = Batch()
    await made.call(script("report"), "g", [])
    await asyncio.sleep(0)
    assert made.lag_s >= waited_s[0] >= 0


async def test_what_waits_is_late_before_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    made, answers = Batch(), asyncio.Event()

    async def carried_out(calls: list[Any]) -> None:
        await answers.wait()
        for call in calls:
            call.answer.set_result((b"", 0))

    monkeypatch.setattr(batch, "_carry_out", carried_out)
    first = asyncio.create_task(made.call(script("report"), "g", []))
    await asyncio.sleep(10 * batch.GATHER_S)
    second = asyncio.create_task(made.call(script("report"), "g", []))
    await asyncio.sleep(batch.GATHER_S)
    assert made.lag_s >= batch.GATHER_S / 2
    answers.set()
    await asyncio.gather(first, second)


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The groups of the calls of each; all are answered."""
    found: list[list[str]] = []

    async def carried_out(calls: list[Any]) -> None:
        found.append([call.wanted.group for call in calls])
        for call in calls:
            call.answer.set_result((b"", 0))

    monkeypatch.setattr(batch, "_carry_out", carried_out)
    return found


async def test_the_more_beats_a_trip_has_the_more_joins(trips: list[list[str]]) -> None:
    made = Batch()
    joins = [made.call(script("join"), "j", [], joins=True) for _ in range(3 * JOINS_AT_ONCE)]
    beats = [made.call(script("report"), "b", []) for _ in range(10 * JOINS_AT_ONCE)]
    await asyncio.gather(*joins, *beats)
    assert [trip.count("j") for trip in trips] == [2 * JOINS_AT_ONCE, JOINS_AT_ONCE]


class Told:
    """Who waits for an answer without a task (batch.Answer)."""

    def __init__(self) -> None:
        self.found: Any = None

    def done(self) -> bool:
        return self.found is not None

    def set_result(self, result: tuple[Any, int], /) -> None:
        self.found = result

    def set_exception(self, exception: Exception, /) -> None:
        self.found = exception


async def until_told(*all_of: Told) -> None:
    async with asyncio.timeout(10):
        while not all(one.done() for one in all_of):
            await asyncio.sleep(batch.GATHER_S)


async def test_many_calls_are_read_in_a_row_as_their_trip_begins(trips: list[list[str]]) -> None:
    """One that cannot be is told so, and the others go on."""
    made, told, read = Batch(), [Told() for _ in range(4)], list[int]()

    def reading(number: int) -> Wanted:
        read.append(number)
        if number == 1:
            raise ValueError("no heartbeat")
        return Wanted.of(script("report"), f"g{number}", [])

    for number, one in enumerate(told):
        made.put(partial(reading, number), NOT_COUNTED, one)
        await asyncio.sleep(0)
    assert not read
    await until_told(*told)
    assert read == [0, 1, 2, 3]
    assert trips == [["g0", "g2", "g3"]]
    assert isinstance(told[1].found, ValueError)
    assert [one.found for n, one in enumerate(told) if n != 1] == 3 * [(b"", 0)]


async def test_a_trip_of_which_nothing_could_be_read_is_none(trips: list[list[str]]) -> None:
    made, first, second = Batch(), Told(), Told()
    made.put(lambda: Wanted.of(script("no such one"), "g", []), NOT_COUNTED, first)
    await until_told(first)
    made.put(lambda: Wanted.of(script("report"), "g", []), NOT_COUNTED, second)
    await until_told(second)
    assert isinstance(first.found, OSError)
    assert trips == [["g"]]


async def test_who_gave_up_is_not_read(
    trips: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.live.deadline.REQUEST_S", batch.GATHER_S / 8)
    monkeypatch.setattr(batch, "STOOD_STILL_S", 60)
    made, told, read = Batch(), Told(), list[int]()

    def reading() -> Wanted:
        read.append(1)
        return Wanted.of(script("report"), "g", [])

    made.put(reading, NOT_COUNTED, told)
    await until_told(told)
    await asyncio.sleep(3 * batch.GATHER_S)
    assert isinstance(told.found, NotInTime)
    assert not read and not trips


async def test_one_call_does_not_wait_for_more_and_two_do(
    trips: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def called(number: int) -> None:
        """One in each turn of the loop, which is a gathering."""
        for _ in range(number):
            await asyncio.sleep(0)
        await made.call(script("report"), "g", [])

    monkeypatch.setattr(batch, "GATHER_S", 0)
    made = Batch()
    await made.call(script("report"), "g", [])
    assert trips == [["g"]]
    await asyncio.gather(called(0), *(called(n) for n in range(ENOUGH)))
    assert 2 < len(trips[1]) <= GATHERED_MAX + 2
    trips.clear()
    await asyncio.gather(*(called(0) for _ in range(ENOUGH)), called(4))
    assert len(trips[0]) == ENOUGH


@pytest.mark.parametrize(
    "calls, is_alone, stood_still",
    [(batch.BUSY, True, True), (batch.BUSY - 1, True, False), (2 * batch.BUSY, False, False)],
    ids=["many, and nobody else", "few", "many, and somebody else"],
)
async def test_the_loop_stands_still_where_many_call_and_nobody_else_is_served(
    calls: int,
    is_alone: bool,
    stood_still: bool,
    trips: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes meanwhile goes with the same trip: one turn reads it, and the next one calls."""
    loop, times = asyncio.get_running_loop(), list[float]()

    def stand_still() -> None:
        times.append(loop.time())
        loop.call_soon(read)

    def read() -> None:
        tasks.append(loop.create_task(made.call(script("report"), "g", [])))

    monkeypatch.setattr(batch, "_stand_still", stand_still)
    tasks: list[asyncio.Task[Any]] = []
    made = Batch(is_alone=lambda: is_alone)
    await asyncio.gather(*(made.call(script("report"), "g", []) for _ in range(calls)))
    assert trips == [calls * ["g"]] and not times
    await made.call(script("report"), "g", [])
    assert bool(times) is stood_still
    assert len(trips[1]) == 1 + len(times)
    await asyncio.gather(*tasks)


@pytest.mark.usefixtures("trips")
async def test_the_loop_goes_on_where_enough_wait_already(monkeypatch: pytest.MonkeyPatch) -> None:
    def stand_still() -> None:
        raise AssertionError("it stood still")

    monkeypatch.setattr(batch, "_stand_still", stand_still)
    made = Batch(is_alone=lambda: True)
    for _ in range(3):
        await asyncio.gather(*(made.call(script("report"), "g", []) for _ in range(ENOUGH)))
    assert made._carried == ENOUGH


def test_of_a_cluster_no_node_makes_the_others_wait() -> None:
    batches = Batches(lambda: True)
    assert batches._at("")._is_alone()
    assert not batches._at("redis://127.0.0.1:7001")._is_alone()


def test_to_stand_still_takes_as_long_as_to_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    slept_s: list[float] = []
    monkeypatch.setattr(batch.time, "sleep", slept_s.append)
    batch._stand_still()
    assert slept_s == [batch.GATHER_S]


async def test_members_come_before_those_who_want_to_be(trips: list[list[str]]) -> None:
    made = Batch()
    joins = [made.call(script("join"), "j", [], joins=True) for _ in range(2 * JOINS_AT_ONCE)]
    beats = [made.call(script("report"), "b", []) for _ in range(CALLS_MAX + 7)]
    await asyncio.gather(*joins, *beats)
    counted = [(trip.count("b"), trip.count("j")) for trip in trips]
    assert counted == [(CALLS_MAX, 0), (7, JOINS_AT_ONCE), (0, JOINS_AT_ONCE)]


async def test_joins_that_are_too_many_refuse_no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "JOINS_WAITING_MAX", 3)
    made = Batch()
    waiting = [asyncio.create_task(made.call(script("join"), "g", [], joins=True)) for _ in "abc"]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await made.call(script("join"), "g", [], joins=True)
    beat = asyncio.create_task(made.call(script("report"), "g", []))
    await asyncio.sleep(0)
    assert len(made._waiting) == 1
    for task in (*waiting, beat):
        task.cancel()
    await asyncio.gather(*waiting, beat, return_exceptions=True)


async def test_a_process_that_stood_still_reads_the_answers_before_it_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others had the processor for longer than a call may take; its answer came meanwhile."""
    monkeypatch.setattr(batch.deadline, "REQUEST_S", 0.01)
    loop, made = asyncio.get_running_loop(), Batch()
    answered, silent = loop.create_future(), loop.create_future()
    for answer in (answered, silent):
        made._limit(answer, loop, loop.time())
    time.sleep(0.02 + batch.STOOD_STILL_S)
    loop.call_later(batch.STOOD_STILL_S / 10, answered.set_result, "read")
    assert await answered == "read"
    with pytest.raises(batch.NotInTime):
        await silent


def test_a_loop_of_long_turns_reads_what_is_there_before_it_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A turn reads it, the next one makes an answer of it; timers come first in each of them."""
    monkeypatch.setattr(batch.deadline, "REQUEST_S", 0.01)
    ours, redis = socket.socketpair()

    async def play() -> bytes:
        loop, turns = asyncio.get_running_loop(), list[float]()
        reader, writer = await asyncio.open_connection(sock=ours)
        answer = loop.create_future()

        async def read() -> None:
            said = await reader.read(9)
            if not answer.done():
                answer.set_result(said)

        def work() -> None:
            turns.append(loop.time())
            if len(turns) == 2:  # late already
                redis.send(b"answered")
            time.sleep(2 * batch.STOOD_STILL_S)
            if not answer.done():
                loop.call_soon(work)

        reading = loop.create_task(read())
        Batch()._limit(answer, loop, loop.time())
        loop.call_soon(work)
        try:
            return bytes(await answer)
        finally:
            writer.close()
            await reading

    with redis, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(play()) == b"answered"
