"""The agent's judgement of its consumer, on a clock of the test's own."""

from collections.abc import Iterable

import pytest

from agent.consumer.consumer import START_TIMEOUT_MS, Consumer, Stall, StallWatch
from agent.consumer.socket import Disconnected, Hello, Message
from agent.consumer.supervisor import RESTART_MAX_MS, RESTART_MIN_MS, Exited, restart_pause_ms
from assignment.member.state import ConsumerState
from assignment.types import Offset, Partition
from assignment.wire import ConsumerHealth, ControlMessage
from tests.builders import settings

CONTROL = ControlMessage(
    group="g",
    member="a",
    redis_url="",
    state_dir="",
    snapshot_url="",
    settings=settings(),
    lease_end_ms=0,
)
ZERO, ONE = Partition("s", 0), Partition("s", 1)
READY = ConsumerHealth(state="ready", batch=1)


class FakeProcess:
    def __init__(self) -> None:
        self.run = 0
        self.done: list[str] = []

    @property
    def pid(self) -> int:
        return 100 + self.run

    def start(self) -> None:
        self.run += 1
        self.done.append("start")

    def ask_to_end(self) -> None:
        self.done.append("ask")

    def kill(self) -> None:
        self.done.append("kill")


class FakeLine:
    def __init__(self) -> None:
        self.controlled: list[int] = []
        self.hung_up = 0

    def send_control(self, number: int, control: ControlMessage) -> None:
        self.controlled.append(number)

    def send_lease_end(self, lease_end_ms: int) -> None: ...

    def hang_up(self) -> None:
        self.hung_up += 1


def consumer(attached: bool = False) -> Consumer:
    return Consumer(FakeLine(), None if attached else FakeProcess(), lambda *_, **__: None)


def ready(attached: bool = False) -> Consumer:
    it = consumer(attached)
    it.tend(0)
    it.take(Hello(1, 7, "app", True), 0)
    it.send_control(CONTROL)
    it.says(READY)
    it.tend(0)
    return it


def done(it: Consumer) -> list[str]:
    assert isinstance(it.process, FakeProcess)
    return it.process.done


def test_it_is_starting_until_it_says_ready() -> None:
    it = consumer()
    assert it.state() is ConsumerState.DEAD
    it.tend(0)
    assert it.state() is ConsumerState.STARTING
    it.take(Hello(1, 7, "app", True), 10)
    assert it.wants_control()
    it.says(READY)  # said by one before it: this one was not controlled yet
    assert it.state() is ConsumerState.STARTING
    it.send_control(CONTROL)
    it.says(READY)
    assert it.state() is ConsumerState.READY


def test_after_being_fenced_what_it_said_stays_true() -> None:
    it = ready()
    it.says(None)
    assert it.state() is ConsumerState.READY


def test_one_that_died_is_started_again_after_a_pause_that_grows() -> None:
    it = consumer()
    it.tend(0)
    it.take(Exited(1, 1), 100)
    assert it.state() is ConsumerState.DEAD
    it.tend(100 + restart_pause_ms(1) - 1)
    assert done(it) == ["start"]
    it.tend(100 + restart_pause_ms(1))
    assert done(it) == ["start", "start"]
    assert [restart_pause_ms(n) for n in (0, 1, 2)] == [
        RESTART_MIN_MS,
        2 * RESTART_MIN_MS,
        4 * RESTART_MIN_MS,
    ]
    assert restart_pause_ms(1_000) == RESTART_MAX_MS


def test_one_has_ended_once_its_end_is_taken() -> None:
    it = ready()
    it.ask_to_end(1_000, 0)
    assert not it.ended, "its last words are still to be read"
    it.take(Exited(1, 0), 100)
    assert it.ended and it.state() is ConsumerState.DEAD


def test_one_that_was_ready_is_started_again_soon() -> None:
    it = ready()
    it.failures = 9
    it.take(Exited(1, -9), 100)
    assert it.start_at_ms == 100 + RESTART_MIN_MS


def test_the_end_of_a_run_before_this_one_means_nothing() -> None:
    it = ready()
    it.take(Exited(0, 1), 0)
    it.take(Disconnected(0), 0)
    it.take(Message(0, {"spark_application_id": "old"}), 0)
    assert it.state() is ConsumerState.READY
    assert it.health.spark_application_id == "app"


def test_one_that_never_gets_ready_is_killed() -> None:
    it = consumer()
    it.tend(0)
    it.tend(START_TIMEOUT_MS - 1)
    assert done(it) == ["start"]
    it.tend(START_TIMEOUT_MS)
    assert done(it) == ["start", "kill"]


def test_one_that_hung_up_is_killed_when_it_does_not_end() -> None:
    it = ready()
    it.take(Disconnected(1), 1_000)
    assert it.state() is ConsumerState.STARTING
    assert it.kill_at_ms is not None
    it.tend(it.kill_at_ms)
    assert done(it)[-1] == "kill"


def test_a_stalled_one_is_killed_once_and_a_new_one_is_not_stalled() -> None:
    it = ready()
    it.has_stalled("no batch")
    assert it.state() is ConsumerState.STALLED
    assert it.restart("no batch", 500)
    assert not it.restart("no batch", 500)
    it.tend(500)
    assert done(it)[-1] == "kill"
    it.take(Exited(1, -9), 600)
    assert it.state() is ConsumerState.DEAD


def test_an_attached_one_is_let_go_of_when_it_stalls() -> None:
    it = ready(attached=True)
    it.has_stalled("no batch")
    it.restart("no batch", 500)
    assert isinstance(it.line, FakeLine) and it.line.hung_up == 1
    it.take(Disconnected(1), 600)
    it.take(Hello(2, 8, "", False), 700)
    assert it.state() is ConsumerState.STARTING
    assert not it.stateful


def test_it_is_asked_to_end_and_killed_when_most_of_the_grace_is_over() -> None:
    it = ready()
    it.ask_to_end(1_000, 0)
    it.ask_to_end(1_000, 500)
    it.tend(799)
    assert done(it) == ["start", "ask"]
    it.tend(800)
    assert done(it) == ["start", "ask", "kill"]


def test_one_that_was_never_ready_is_not_waited_for() -> None:
    it = consumer()
    it.tend(0)
    it.take(Hello(1, 7, "app", True), 0)
    it.send_control(CONTROL)
    it.says(ConsumerHealth(state="starting"))
    it.ask_to_end(1_000, 0)
    assert done(it) == ["start", "kill"]


def test_one_whose_query_starts_anew_is_waited_for() -> None:
    it = ready()
    it.says(ConsumerHealth(state="starting", why="query failed"))
    it.ask_to_end(1_000, 0)
    assert done(it) == ["start", "ask"]


def test_a_crash_is_told_once_and_none_that_was_asked_for() -> None:
    it = ready()
    it.take(Exited(1, 1), 0)
    assert (it.take_crash(), it.take_crash()) == (1, None)
    killed, asked = ready(), ready()
    killed.take(Exited(1, -9), 0)
    asked.ask_to_end(1_000, 0)
    asked.take(Exited(1, 1), 100)
    assert (killed.take_crash(), asked.take_crash()) == (None, None)


def test_one_that_ended_on_request_is_not_started_again() -> None:
    it = ready()
    it.ask_to_end(1_000, 0)
    it.take(Exited(1, 0), 100)
    it.tend(60_000)
    assert done(it) == ["start", "ask"]
    assert it.next_due_ms() is None


@pytest.mark.parametrize(
    ("behind", "batches", "stall"),
    [
        ([{ZERO: 1}] * 9, [1] * 9, Stall(is_whole=True)),
        ([{}] * 9, [1] * 9, Stall()),
        ([{}] * 6 + [{ZERO: 1}] * 3, [1] * 9, Stall()),  # idle for long, then one event came
        ([{ZERO: n} for n in range(9)], range(9), Stall()),
        # Others' batches are no progress of a partition that stands still.
        ([{ZERO: 1, ONE: n} for n in range(9)], range(9), Stall(frozenset({ZERO}))),
    ],
)
def test_stalled_is_who_is_behind_all_the_time_and_commits_nothing(
    behind: list[dict[Partition, int]], batches: Iterable[int], stall: Stall
) -> None:
    watch, told = StallWatch(), settings(consumer_stall_ms=4_000)
    seen = Stall()
    for n, (there, batch) in enumerate(zip(behind, batches, strict=True)):
        offsets = {partition: Offset(at, 0) for partition, at in there.items()}
        seen = watch.look(ConsumerHealth(batch=batch), told, 1_000 * n, lambda at=offsets: at)
    assert seen == stall


def test_the_time_in_which_nobody_could_look_is_no_stall() -> None:
    watch, told = StallWatch(), settings(consumer_stall_ms=4_000, heartbeat_ms=300)

    def looks(from_ms: int, until_ms: int) -> set[Stall]:
        moments = range(from_ms, until_ms, told.heartbeat_ms)
        return {watch.look(READY, told, now_ms, lambda: {ZERO: Offset(1, 0)}) for now_ms in moments}

    assert looks(0, 2_000) == {Stall()}
    assert looks(62_000, 66_000) == {Stall()}, "Redis was away for a minute"
    assert looks(66_000, 68_000) == {Stall(), Stall(is_whole=True)}


def test_lag_is_looked_at_four_times_within_the_time() -> None:
    watch, told, looks = StallWatch(), settings(consumer_stall_ms=4_000), []
    for now_ms in range(0, 4_000, 100):
        watch.look(READY, told, now_ms, lambda: looks.append(1) or {})
    assert len(looks) == 4
