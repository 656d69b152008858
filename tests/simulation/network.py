"""What lies between processes: messages that are lost, late, doubled, and out of order."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from agent.dashboard_session.requests import Answer, DashboardAway, Refusal, Request
from agent.store.door import Command, ScriptCall, StoreUnavailable
from assignment.errors import InvalidInput
from assignment.types import ReplicaReport, Role
from assignment.wire import ConsumerHealth, Heartbeat, Reply
from tests.fakes import FakeDoor, FakeRedis

if TYPE_CHECKING:
    from tests.simulation.agents import SimAgent
    from tests.simulation.world import World


LIES: tuple[dict[str, Any], ...] = (  # what a heartbeat says instead
    {"owned": {"another:0": "4294967297 running", "s:99999": "1 running"}, "complete": True},
    {"owned": {"s:0": f"{2**53 - 1} running", "s:1": "0 revoked"}, "complete": True},
    {"owned": {"s:0": "4294967297 running"}, "complete": True, "report": 7},
    {"owned": {"s:0": "nonsense"}},
    {"incarnation": 2**21 - 1, "target_epoch": 2**40, "target_incarnation": 2**21 - 1},
    {
        "ready": ("s:0", "another:1"),
        "replicas": {"another:1": ReplicaReport(role=Role.LEARNER, lag=0)},
    },
    {"consumer": ConsumerHealth(halted=({"partition": "s:0", "reason": "all"},)), "able": True},
    {"sequence": 2**52},
)
THE_OLD_ONE = -1  # connection to the primary before the last failover


class Fate(StrEnum):
    FINE = auto()
    LOST = auto()
    LATE = auto()  # its sender has given up; carried out all the same
    NO_REPLY = auto()
    DOUBLED = auto()  # a replica arrives later, after what was sent since


@dataclass(slots=True)
class Network:
    """Chances, per message, of what a network does to it."""

    lost: float = 0.0
    late: float = 0.0
    no_reply: float = 0.0
    doubled: float = 0.0
    missed_hints: float = 0.0
    delay_ms: tuple[int, int] = (1, 30)
    late_ms: tuple[int, int] = (50, 2_500)

    def fate(self, rng: random.Random) -> Fate:
        draw = rng.random()
        for fate in (Fate.LOST, Fate.LATE, Fate.NO_REPLY, Fate.DOUBLED):
            chance = getattr(self, fate)
            if draw < chance:
                return fate
            draw -= chance
        return Fate.FINE


class SimDoor(FakeDoor):
    """Redis as one process reaches it. `blocked` hears for how long the caller waited in vain."""

    def __init__(
        self, world: "World", blocked: Callable[[int], None], server: FakeRedis | None = None
    ) -> None:
        super().__init__(server or world.server)
        self._world = world
        self._blocked = blocked

    def run(self, call: ScriptCall) -> Any:
        world = self._world
        if self._reach() is not world.server:
            return super().run(call)  # not the primary: what it says counts for nothing
        match world.network.fate(world.random):
            case Fate.FINE | Fate.DOUBLED:  # a TCP connection doubles nothing
                return world.execute(call, super())
            case Fate.NO_REPLY:
                world.execute(call, super())
                self._fail("lost on the way back", call.name)
            case Fate.LATE:
                late_ms = world.random.randint(*world.network.late_ms)
                world.later(late_ms, lambda: world.execute_late(call))
                self._fail("stuck on the way there", call.name)
            case Fate.LOST:
                self._fail("lost on the way there", call.name)

    def ask(self, *command: str | bytes | int) -> Any:
        self._read_may_fail(command)
        return super().ask(*command)

    def ask_together(self, commands: Any) -> list[Any]:
        self._read_may_fail(commands[0])
        return [FakeDoor.ask(self, *command) for command in commands]

    def _reach(self) -> FakeRedis:
        world = self._world
        if self.down or self.server.away:
            world.struck["redis did not answer"] += 1
        if world.now_ms < world.redis.name_switches_ms:
            self._connection = THE_OLD_ONE
        server = super()._reach()
        server.now_ms = world.redis_ms
        return server

    def _read_may_fail(self, command: Command) -> None:
        self._reach()
        network = self._world.network
        if self._world.random.random() < network.lost + network.late + network.no_reply:
            self._fail("not answered", str(command[0]))

    def _fail(self, why: str, what: str) -> None:
        world = self._world
        world.struck["call not answered"] += 1
        world.note("network", why, what=what)
        self._blocked(world.random.randint(10, world.settings.lease_ms // 5))
        raise StoreUnavailable(why)


class SimCourier:
    """One message at a time; the newest of those that wait (as agent.dashboard_session has it)."""

    def __init__(self, agent: "SimAgent") -> None:
        self._agent = agent
        self._world = agent.world
        self._waiting: Request | None = None
        self._busy = False

    @property
    def busy(self) -> bool:
        return self._busy or self._waiting is not None

    def send(self, message: Request) -> None:
        self._agent.judge_ready(message)
        self._waiting = message
        self._go()

    def _go(self) -> None:
        if self._busy or self._waiting is None:
            return
        message, self._waiting, self._busy = self._waiting, None, True
        fate = self._world.network.fate(self._world.random)
        if fate is not Fate.FINE:
            self._world.struck[f"message {fate}"] += 1
        if fate in (Fate.LATE, Fate.DOUBLED):
            self._world.later(self._late_ms(), lambda: self._asked(message))
        if fate in (Fate.LATE, Fate.LOST):
            self._after_delay(lambda: self._answered(message, None))
        else:
            self._after_delay(lambda: self._asked_and_answered(message, fate))

    def _asked(self, message: Request) -> Reply | Refusal | None:
        agent, beats = self._agent, isinstance(message, Heartbeat)
        if beats and not agent.beats:
            return None
        if agent.lies and isinstance(message, Heartbeat):
            message = replace(message, **agent.lies)
        try:
            return agent.ask(message)
        except Refusal as refusal:
            return refusal
        except (DashboardAway, InvalidInput):
            return None

    def _asked_and_answered(self, message: Request, fate: Fate) -> None:
        reply = self._asked(message)
        heard = None if fate is Fate.NO_REPLY else reply
        self._after_delay(lambda: self._answered(message, heard))

    def _answered(self, message: Request, answer: Reply | Refusal | None) -> None:
        self._busy = False
        self._world.struck["dashboard did not answer"] += answer is None
        if isinstance(answer, Reply):
            self._agent.inbox.put(Answer(message, answer, None))
        else:
            self._agent.inbox.put(Answer(message, None, answer or DashboardAway("simulated")))
        self._go()

    def _after_delay(self, what: Callable[[], Any]) -> None:
        self._world.agenda.after(self._world.random.randint(*self._world.network.delay_ms), what)

    def _late_ms(self) -> int:
        return self._world.random.randint(*self._world.network.late_ms)
