"""A herd of joins: some wait, the others are told when to come, and heartbeats come before them."""

import asyncio
import math
import socket
import time
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import uvicorn
import uvloop
from pytest_django.fixtures import Settings

from assignment.types import GroupSettings
from dashboard.agents import answers, rate, turns
from dashboard.agents.requests import Problem
from dashboard.agents.turns import LATER_MAX_S, PER_SECOND, WAIT_MAX_S, Turns
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
from dashboard.web.__main__ import APPLICATION, OPTIONS
from dashboard.web.heads import Answer
from tests.dashboard.agents import BEAT, JOIN, Caller, token_of

A_SECOND = int(PER_SECOND)


class Clock:
    now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


def test_turns_come_at_a_pace_in_the_order_of_those_who_came() -> None:
    made = Turns(Clock())
    waits = [made.take("g") for _ in range(round(WAIT_MAX_S * PER_SECOND) + 1)]
    assert waits[0] == 0
    assert None not in waits
    steps = [after - before for before, after in pairwise(waits)]  # type: ignore[operator]
    assert steps == pytest.approx([1 / PER_SECOND] * len(steps))


def test_a_group_waits_for_no_other() -> None:
    made = Turns(Clock())
    while made.take("herd") is not None:
        pass
    assert made.take("other") == 0


def waits_of(made: Turns, group: str, count: int) -> list[float]:
    waits = [made.take(group) for _ in range(count)]
    return [wait for wait in waits if wait is not None]


def test_groups_share_the_pace_while_members_of_them_wait() -> None:
    clock = Clock()
    made = Turns(clock)
    for group in ("a", "b"):
        waits_of(made, group, A_SECOND // 2)
    clock.now_s += 2 * turns.COUNT_EVERY_S
    first, second = waits_of(made, "a", 2)
    assert second - first == pytest.approx(2 / PER_SECOND)
    clock.now_s += 2
    assert waits_of(made, "a", 2) == pytest.approx([0, 1 / PER_SECOND])


def test_joins_come_slower_while_heartbeats_are_answered_late() -> None:
    made = Turns(Clock())
    made.lag_s = 10 * turns.LATE_S
    assert waits_of(made, "g", 3) == pytest.approx([0, 10 / PER_SECOND, 20 / PER_SECOND])


def test_who_is_sent_away_by_all_waits_for_no_group() -> None:
    clock = Clock()
    made = Turns(clock)
    for n in range(100):
        waits_of(made, f"g{n}", A_SECOND // 2)
    clock.now_s += 2 * turns.COUNT_EVERY_S
    waits_of(made, "g0", 1)
    assert [made.later_s() for _ in range(10)] == 10 * [math.ceil(WAIT_MAX_S)]


def test_who_is_sent_away_in_such_a_moment_comes_back_as_if_it_were_over() -> None:
    made = Turns(Clock())
    made.lag_s = 20 * turns.LATE_S
    told = [made.later_s("g") for _ in range(A_SECOND)]
    assert told[-1] == math.ceil(WAIT_MAX_S + 1)


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
        found.append([call.group for call in calls])
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
        return Wanted(script("report"), f"g{number}", [])

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
    made.put(lambda: Wanted(script("no such one"), "g", []), NOT_COUNTED, first)
    await until_told(first)
    made.put(lambda: Wanted(script("report"), "g", []), NOT_COUNTED, second)
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
        return Wanted(script("report"), "g", [])

    made.put(reading, NOT_COUNTED, told)
    await until_told(told)
    await asyncio.sleep(3 * batch.GATHER_S)
    assert isinstance(told.found, NotInTime)
    assert not read and not trips


def test_a_herd_that_comes_when_it_was_told_to_is_taken() -> None:
    """10,000 at one moment: each is sent away once, or twice, and nobody for longer than needed."""
    clock = Clock()
    made = Turns(clock)
    comes = {0: 10_000}  # in how many tenths of a second: so many
    sent_away = 0
    for tenth in range(600):
        clock.now_s = 50 + tenth / 10
        for n in range(comes.pop(tenth, 0)):
            if made.take("g") is None:
                sent_away += 1
                later = made.later_s("g") * 10 + n % 6  # as agents do, up to half as much later
                comes[tenth + later] = comes.get(tenth + later, 0) + 1
        if not comes:
            break
    assert tenth / 10 < 1.5 * 10_000 / PER_SECOND + 2
    assert sent_away < 1.5 * 10_000


def test_what_is_told_is_bounded_and_so_is_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    made = Turns(clock)
    told = [made.later_s() for _ in range(A_SECOND * (LATER_MAX_S + 5))]
    assert (told[0], told[-1]) == (math.ceil(WAIT_MAX_S), LATER_MAX_S)
    assert told == sorted(told)
    monkeypatch.setattr(turns, "GROUPS_MAX", 10)
    for n in range(30):
        made.take(f"g{n}")
    assert len(made._next) == 10
    clock.now_s += 1
    made.take("late")
    assert set(made._next) == {"late"}


def test_a_connection_outlives_several_heartbeats() -> None:
    given = uvicorn.main.make_context("web", [APPLICATION, *OPTIONS], resilient_parsing=True).params
    heartbeat_ms = GroupSettings(stream="s", partitions=1).heartbeat_ms
    assert given["timeout_keep_alive"] * 1_000 >= 4 * heartbeat_ms


async def test_one_call_does_not_wait_for_more_and_two_do(monkeypatch: pytest.MonkeyPatch) -> None:
    trips: list[int] = []

    async def carried_out(calls: list[Any]) -> None:
        trips.append(len(calls))
        for call in calls:
            call.answer.set_result((b"", 0))

    async def called(number: int) -> None:
        """One in each turn of the loop, which is a gathering."""
        for _ in range(number):
            await asyncio.sleep(0)
        await made.call(script("report"), "g", [])

    monkeypatch.setattr(batch, "_carry_out", carried_out)
    monkeypatch.setattr(batch, "GATHER_S", 0)
    made = Batch()
    await made.call(script("report"), "g", [])
    assert trips == [1]
    await asyncio.gather(called(0), *(called(n) for n in range(ENOUGH)))
    assert 2 < trips[1] <= GATHERED_MAX + 2
    trips.clear()
    await asyncio.gather(*(called(0) for _ in range(ENOUGH)), called(4))
    assert trips[0] == ENOUGH


@pytest.mark.parametrize(
    "calls, is_alone, stood_still",
    [(batch.BUSY, True, True), (batch.BUSY - 1, True, False), (2 * batch.BUSY, False, False)],
    ids=["many, and nobody else", "few", "many, and somebody else"],
)
async def test_the_loop_stands_still_where_many_call_and_nobody_else_is_served(
    calls: int, is_alone: bool, stood_still: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes meanwhile goes with the same trip: one turn reads it, and the next one calls."""
    loop, trips, times = asyncio.get_running_loop(), list[int](), list[float]()

    async def carried_out(calls: list[Any]) -> None:
        trips.append(len(calls))
        for call in calls:
            call.answer.set_result((b"", 0))

    def stand_still() -> None:
        times.append(loop.time())
        loop.call_soon(read)

    def read() -> None:
        tasks.append(loop.create_task(made.call(script("report"), "g", [])))

    monkeypatch.setattr(batch, "_carry_out", carried_out)
    monkeypatch.setattr(batch, "_stand_still", stand_still)
    tasks: list[asyncio.Task[Any]] = []
    made = Batch(is_alone=lambda: is_alone)
    await asyncio.gather(*(made.call(script("report"), "g", []) for _ in range(calls)))
    assert trips == [calls] and not times
    await made.call(script("report"), "g", [])
    assert bool(times) is stood_still
    assert trips[1] == 1 + len(times)
    await asyncio.gather(*tasks)


async def test_the_loop_goes_on_where_enough_wait_already(monkeypatch: pytest.MonkeyPatch) -> None:
    async def carried_out(calls: list[Any]) -> None:
        for call in calls:
            call.answer.set_result((b"", 0))

    def stand_still() -> None:
        raise AssertionError("it stood still")

    monkeypatch.setattr(batch, "_carry_out", carried_out)
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


def test_requests_are_told_to_redis_by_parts_of_their_limit(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.AGENT_RATE_PER_SECOND = 10 * rate.UNTOLD_SHARE
    now_s = 1_000.0
    monkeypatch.setattr("dashboard.agents.rate.time.time", lambda: now_s)
    made = rate.Rate()
    counted = [made.admitted("g", 7) for _ in range(30)]
    assert [one.requests for one in counted] == 3 * [*[0] * 9, 10]
    made.counted(counted[0].name, 0)
    made.admitted("g", 7)
    made.counted(counted[9].name, settings.AGENT_RATE_PER_SECOND + 1)
    with pytest.raises(Problem):
        made.admitted("g", 7)
    made.admitted("g", 8)
    now_s += 1
    made.admitted("g", 7)
    made.counted(counted[9].name, settings.AGENT_RATE_PER_SECOND + 1)  # comes late
    made.admitted("g", 7)


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


@pytest.fixture
def caller(group: Any) -> Caller:
    return Caller(group.name, token_of(group))


@pytest.mark.django_db(transaction=True)
async def test_who_would_wait_too_long_is_told_when_to_come_and_members_are_not(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Answer] = []
    spoken = answers.as_answer

    def watched(problem: Any) -> Answer:
        said.append(spoken(problem))
        return said[-1]

    assert (await caller.post("join", JOIN))[0] == 200
    monkeypatch.setattr(answers, "as_answer", watched)
    monkeypatch.setattr(turns, "PER_SECOND", 0.5)
    assert (await caller.post("join", JOIN | {"member": "m2"}))[0] == 200
    refused = [await caller.post("join", JOIN | {"member": f"m{n}"}) for n in (3, 4)]
    assert [(status, told["title"]) for status, told in refused] == [(503, "Busy")] * 2
    later = [one.lines.split(b"retry-after: ")[1] for one in said]
    assert later == [b"3\r\n", b"5\r\n"]
    assert (await caller.post("heartbeat", BEAT))[0] == 200


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
