"""The agent's judgement of its consumer, from three witnesses: its process, its socket, its
progress.

Decides whether it is starting, ready, stalled or dead, starts it again after a pause, and ends it
in time. Used by the loop's thread only; `now_ms` is the loop's monotonic clock.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from agent.consumer.in_hand import is_crash
from agent.consumer.socket import ConsumerSocket, Disconnected, Hello, Message, SocketEvent
from agent.consumer.supervisor import Exited, Supervisor, restart_pause_ms
from assignment.bounds import LINE_MAX, shortened
from assignment.member.state import ConsumerState
from assignment.types import GroupSettings, Offset, Partition
from assignment.wire import ConsumerHealth, ControlMessage

START_TIMEOUT_MS = 300_000  # Spark takes 10 to 20 s, on a loaded machine a few times as long
LETTING_GO_MS = 10_000  # a consumer that hung up ends by itself within a lease, else it is killed
ENDING_PART = 0.8  # of the grace: the last fifth is for releasing and leaving
LOOKS_PER_STALL = 4  # how often lag is looked at within consumer_stall_ms


class Stall(NamedTuple):
    """What stands still: partitions, while others go on; or the consumer as a whole."""

    partitions: frozenset[Partition] = frozenset()
    is_whole: bool = False


@dataclass(slots=True)
class StallWatch:
    """Of which partitions nothing was committed for consumer_stall_ms though they were behind all
    the time, and whether a batch was finished meanwhile (coordination.md sections 6 and 8). A time
    in which nobody could look, because Redis was away or this machine slept, counts for nothing.
    """

    batch: tuple[int, int] = (-1, 0)
    batch_since_ms: int | None = None
    behind: Mapping[Partition, tuple[Offset, int]] = field(default_factory=dict)  # since when
    next_look_ms: int = 0

    def look(
        self,
        health: ConsumerHealth,
        settings: GroupSettings,
        now_ms: int,
        lagging: Callable[[], Mapping[Partition, Offset]],
    ) -> Stall:
        """`lagging` asks Redis; it is called at most LOOKS_PER_STALL times within the time."""
        if (seen := (health.batch, health.batch_at_ms)) != self.batch:
            self.batch, self.batch_since_ms = seen, now_ms
        if now_ms < self.next_look_ms:
            return Stall()
        every_ms = settings.consumer_stall_ms // LOOKS_PER_STALL
        missed = now_ms - self.next_look_ms > max(every_ms, 2 * settings.heartbeat_ms)
        self.next_look_ms = now_ms + every_ms
        before = {} if missed else self.behind
        self.behind = {
            p: before[p] if p in before and before[p][0] == offset else (offset, now_ms)
            for p, offset in lagging().items()
        }
        patience_ms = settings.consumer_stall_ms
        still = {p for p, (_, since_ms) in self.behind.items() if now_ms - since_ms >= patience_ms}
        if still and now_ms - (self.batch_since_ms or 0) >= patience_ms:
            return Stall(is_whole=True)
        return Stall(frozenset(still))


@dataclass(slots=True)
class Consumer:
    """`process` None: attached to a consumer that somebody else starts."""

    line: ConsumerSocket
    process: Supervisor | None
    note: Callable[..., None]  # one log event: name and fields
    connection: int | None = None  # number of the newest connection, while it lasts
    controlled: bool = False
    stateful: bool = True
    connected_pid: int = 0  # of the consumer that connected last
    crashed: int | None = None  # the code with which it ended by its own fault, until taken
    health: ConsumerHealth = field(default_factory=ConsumerHealth)
    alive: bool = False  # a process of ours was started and its end is not taken yet
    was_ready: bool = False  # since its process was started
    stalled: bool = False
    restarting: bool = False
    ending: bool = False
    watch: StallWatch = field(default_factory=StallWatch)
    failures: int = 0
    start_at_ms: int | None = 0
    kill_at_ms: int | None = None
    kill_why: str = ""

    # --- what happened

    def take(self, event: SocketEvent | Exited, now_ms: int) -> None:
        match event:
            case Hello():
                self._begin(event)
            case Message(number, facts) if number == self.connection:
                if application := str(facts.get("spark_application_id") or ""):
                    self.health = replace(self.health, spark_application_id=application)
            case Disconnected(number) if number == self.connection:
                self._let_go(now_ms)
            case Exited(run, code) if self.process and run == self.process.run:
                self._exited(code, now_ms)
            case _:
                pass  # about a connection or a run before this one

    def _begin(self, hello: Hello) -> None:
        self.connection, self.controlled = hello.number, False
        self.stalled = self.restarting = False
        self.stateful, self.connected_pid = hello.stateful, hello.pid
        self.health = ConsumerHealth(spark_application_id=hello.spark_application_id)
        self.watch = StallWatch()
        self.note("consumer connected", pid=hello.pid, application=hello.spark_application_id)

    def _let_go(self, now_ms: int) -> None:
        self.connection, self.controlled = None, False
        self.note("consumer hung up")
        if self.process and self.alive and self.kill_at_ms is None:
            self.kill_at_ms, self.kill_why = now_ms + LETTING_GO_MS, "it hung up and did not end"

    def _exited(self, code: int, now_ms: int) -> None:
        if self.health.state == "ready":
            self.failures = 0
        if is_crash(code) and not (self.ending or self.restarting):
            self.crashed = code
        self.alive, self.connection, self.controlled = False, None, False
        self.stalled = self.restarting = False
        self.health = ConsumerHealth(state="dead", why=f"ended with code {code}")
        self.kill_at_ms = None
        self.start_at_ms = None if self.ending else now_ms + restart_pause_ms(self.failures)
        self.note("consumer ended", code=code, restarts_in_ms=self._pause_ms(now_ms))

    def take_crash(self) -> int | None:
        """The code of a crash that nobody has asked for yet."""
        code, self.crashed = self.crashed, None
        return code

    def _pause_ms(self, now_ms: int) -> int | None:
        return None if self.start_at_ms is None else self.start_at_ms - now_ms

    def says(self, health: ConsumerHealth | None) -> None:
        """Read from Redis. None after this member was fenced: what was known stays true."""
        if health is not None and self.controlled:
            known = health.spark_application_id or self.health.spark_application_id
            self.health = replace(health, spark_application_id=known)
            self.was_ready |= health.state == "ready"

    # --- what to do

    def tend(self, now_ms: int) -> None:
        """Starts and kills when it is time. Raises ConsumerUnstartable."""
        if self.process is None:
            return
        if self.kill_at_ms is not None and now_ms >= self.kill_at_ms:
            self.note("consumer killed", why=self.kill_why)
            self.kill_at_ms = None
            self.process.kill()
        if self.start_at_ms is not None and now_ms >= self.start_at_ms and not self.ending:
            self._start(self.process, now_ms)
        if self.health.state == "ready" and self.connection is not None and not self.ending:
            self.kill_at_ms = None

    def _start(self, process: Supervisor, now_ms: int) -> None:
        self.failures += 1
        self.start_at_ms = now_ms + restart_pause_ms(self.failures)  # unless it starts
        process.start()
        self.start_at_ms = None
        self.alive, self.was_ready = True, False
        self.health = ConsumerHealth()
        self.kill_at_ms = now_ms + START_TIMEOUT_MS
        self.kill_why = f"not ready within {START_TIMEOUT_MS} ms"
        self.note("consumer started", pid=process.pid)

    def wants_control(self) -> bool:
        return self.connection is not None and not self.controlled

    def send_control(self, control: ControlMessage) -> None:
        if self.connection is not None:
            self.line.send_control(self.connection, control)
            self.controlled = True

    def has_stalled(self, why: str) -> None:
        self.stalled = True
        self.health = replace(self.health, why=why)

    def restart(self, why: str, now_ms: int) -> bool:
        """For one that hangs: killed; let go of when attached. False: that is under way."""
        if self.restarting:
            return False
        self.restarting = True
        if self.process is not None:
            self.kill_at_ms, self.kill_why = now_ms, why
        self.line.hang_up()
        return True

    def ask_to_end(self, grace_ms: int, now_ms: int) -> None:
        """To finish the batch in hand; killed when most of the grace is over. One that was never
        ready has none, and is killed at once.
        """
        if self.ending:
            return
        self.ending = True
        self.start_at_ms = None
        if self.process is not None and not self.was_ready:
            self.process.kill()
        elif self.process is not None:
            self.process.ask_to_end()
            self.kill_at_ms = now_ms + int(grace_ms * ENDING_PART)
            self.kill_why = "the grace is over"

    def end_now(self) -> None:
        self.ending = True
        self.start_at_ms = None
        if self.process is not None:
            self.process.kill()
        self.line.hang_up()

    # --- what it is

    @property
    def ended(self) -> bool:
        return not self.alive

    def state(self) -> ConsumerState:
        if self.stalled:
            return ConsumerState.STALLED
        if self.process is not None and not self.alive:
            return ConsumerState.DEAD
        if self.connection is None:
            attached = self.process is None
            return ConsumerState.DEAD if attached else ConsumerState.STARTING
        if self.controlled and self.health.state == "ready":
            return ConsumerState.READY
        return ConsumerState.STARTING

    def report(self) -> ConsumerHealth:
        """As it is told to the dashboard: its own words under the agent's judgement."""
        return replace(
            self.health,
            state=str(self.state()),
            why=shortened(self.health.why),
            spark_application_id=shortened(self.health.spark_application_id, LINE_MAX),
        )

    def next_due_ms(self) -> int | None:
        due: Sequence[int | None] = (self.start_at_ms, self.kill_at_ms)
        return min((ms for ms in due if ms is not None), default=None)
