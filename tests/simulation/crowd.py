"""Groups of light members on one fake Redis in virtual time, and what is done there by whom.

Members decide and speak as load_check's; the rules of the coordinator are carried out at once.
Nothing is checked after each step: that is what the seeds are for.
"""

import asyncio
import selectors
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import hiredis
import msgspec

from assignment import wire
from assignment.coordinator import effects, rebalance, resting, tick
from assignment.coordinator.effects import Effect, Steps
from assignment.coordinator.facts import GroupRecord
from assignment.scripts import dashboard_side, group_read, recovery
from assignment.scripts.group_read import Purpose, Ticker
from assignment.scripts.values import Call
from assignment.types import Coordination, GroupSettings
from assignment.wire import GroupKeys
from dashboard.evaluation.load.hints import OF_LOCKS
from dashboard.evaluation.load.lines import Answered
from dashboard.evaluation.load.member import LightMember
from dashboard.evaluation.load.told import Told
from dashboard.live.scripts import script
from tests.agent.coordinator import answer_to
from tests.fakes import FakeRedis
from tests.fakes.values import t
from tests.simulation import database
from tests.simulation.coordinator import IDENTITY, Ticked, glance_of
from tests.simulation.database import Database

ANSWER_S = (0.001, 0.02)  # of the dashboard
HINT_S = 0.02
ASKED_S = 0.05  # from a change to the run of its task
REQUESTS: Mapping[str, type[Any]] = {"join": wire.Join, "heartbeat": wire.Heartbeat}


class VirtualLoop(asyncio.SelectorEventLoop):
    """Whose time goes on to the next timer at once. Nothing comes from outside."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now_s


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "nobody waits for a time"
        self.loop.now_s += timeout
        return []


class CountedRedis(FakeRedis):
    """Counts commands, those of scripts included, and notes hints: (stream, reason), in turn. It is
    never put back, so it keeps no journal.
    """

    def __init__(self) -> None:
        super().__init__()
        self.commands = 0
        self.told: list[tuple[str, str]] = []

    def execute(self, call: Any) -> Any:
        self.commands += 1
        if call[0] == b"XADD" and call[-2] == b"reason":
            self.told.append((t(call[1]), t(call[-1])))
        return super().execute(call)

    def _end_transaction(self) -> None:
        self._pending.clear()


@dataclass(slots=True, eq=False)
class Stage:
    """All groups. `count` only goes up. `cpu_s`: by who spent it; what is left is of members."""

    loop: VirtualLoop
    server: CountedRedis
    names: Mapping[bytes, str]  # of scripts, by their hash
    began_ms: int
    dice: Random
    told: Told = field(default_factory=Told)
    count: Counter[str] = field(default_factory=Counter)
    cpu_s: Counter[str] = field(default_factory=Counter)

    def ask(self, command: Sequence[Any]) -> Any:
        """As Redis answers it, now."""
        began_s = time.process_time()
        self.server.now_ms = self.began_ms + int(self.loop.now_s * 1e3)
        try:
            if command[0] in (b"EVALSHA", "EVALSHA"):
                self.count["scripts"] += 1
                sha = command[1] if isinstance(command[1], bytes) else command[1].encode()
                return self.server.run_script(self.names[sha], [command[3]], command[4:])
            return self.server.ask(*command)
        finally:
            self.cpu_s["redis"] += time.process_time() - began_s

    @contextmanager
    def spending(self, who: str) -> Iterator[None]:
        """CPU time without that of Redis meanwhile."""
        began_s, redis_s = time.process_time(), self.cpu_s["redis"]
        yield
        spent_s = time.process_time() - began_s
        self.cpu_s[who] += spent_s - (self.cpu_s["redis"] - redis_s)


@dataclass(slots=True, eq=False)
class SimGroup:
    """One group: its coordinator, its records, and the door of its members to Redis, as RedisLine.

    Its fields `server`, `database`, `keys`, `reached`, `struck`, `liars` are what `database` reads.
    """

    stage: Stage
    group: str
    settings: GroupSettings
    members: dict[str, LightMember] = field(default_factory=dict)
    hearers: dict[str, Sequence[LightMember]] = field(default_factory=dict)  # by stream
    hinted: dict[str, set[str]] = field(default_factory=dict)  # member -> reasons
    is_asked: bool = False
    ticker: Ticker = field(default_factory=Ticker)
    rest: tuple[Ticked, resting.Rest] | None = None
    liars: frozenset[str] = frozenset()
    reached: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    database: Database = field(init=False)
    keys: GroupKeys = field(init=False)

    def __post_init__(self) -> None:
        self.database, self.keys = Database(self.settings), GroupKeys(self.group)

    def takes(self, members: Sequence[LightMember]) -> None:
        """Each hears its own hints and the calls to all, as load_check's."""
        self.members = {member.name: member for member in members}
        self.hearers = {self.keys.hints(name): [one] for name, one in self.members.items()}
        self.hearers[self.keys.calls] = members

    @property
    def server(self) -> CountedRedis:
        return self.stage.server

    # --- as a line to Redis

    def command_of(self, call: Call[Any]) -> tuple[Any, ...]:
        return "EVALSHA", script(call.script).sha, 1, self.keys.meta, *call.args

    def send(self, command: bytes, heard: Callable[[Any], None]) -> None:
        reader = hiredis.Reader()
        reader.feed(command)
        answer = self.now(reader.gets())
        self.stage.loop.call_soon(heard, answer)

    async def ask(self, *commands: Sequence[Any]) -> list[Any]:
        answers = [self.now(command) for command in commands]
        await asyncio.sleep(0)
        return answers

    async def run(self, call: Call[Any]) -> Any:
        (raw,) = await self.ask(self.command_of(call))
        return call.read(raw)

    def now(self, command: Sequence[Any]) -> Any:
        answer = self.stage.ask(command)
        self._spread_hints()
        return answer

    def call(self, call: Call[Any]) -> Any:
        return call.read(self.now(self.command_of(call)))

    def read(self) -> group_read.GroupRead:
        return self.call(group_read.read_group(Purpose.LOOK))  # type: ignore[no-any-return]

    def _spread_hints(self) -> None:
        """What came of the last command: each entry of a stream goes to all that listen to it."""
        told, self.server.told = self.server.told, []
        for stream, reason in told:
            hearers = self.hearers[stream]
            self.stage.count["hints delivered"] += len(hearers)
            for member in hearers:
                self._hint(member, reason)

    def _hint(self, member: LightMember, reason: str) -> None:
        """What comes within HINT_S is heard together."""
        if member.name not in self.hinted:
            self.hinted[member.name] = set()
            self.stage.loop.call_later(HINT_S, self._hinted, member)
        self.hinted[member.name].add(reason)

    def _hinted(self, member: LightMember) -> None:
        reasons = self.hinted.pop(member.name)
        member.hinted(wants_target=bool(reasons.difference(OF_LOCKS)))

    # --- the dashboard

    def answer(self, verb: str, body: bytes) -> Answered:
        self.stage.count[verb] += 1
        with self.stage.spending("dashboard"):
            message = msgspec.json.decode(body, type=REQUESTS[verb])
            reply = answer_to(self._answering, self.settings, message)
        meta = self.server.hash(self.keys.meta)
        if meta.get(b"group_epoch") != meta.get(b"target_epoch"):
            self.ask_rebalance()
        if reply is None:
            return Answered(503, b"", 1.0)
        return Answered(200, msgspec.json.encode(reply))

    def _answering(self, call: Call[Any]) -> Any:
        """Whoever answers a join reads the group's meta; tests read the whole group for that."""
        if call.script == "read_group":
            raw = self.now(("HGETALL", self.keys.meta))
            return SimpleNamespace(meta=group_read.read_meta(raw))
        return self.call(call)

    def ask_rebalance(self) -> None:
        if not self.is_asked:
            self.is_asked = True
            self.stage.loop.call_later(ASKED_S, self._rebalance)

    def _rebalance(self) -> None:
        self.is_asked = False
        self.stage.count["rebalances tried"] += 1
        self._carry_out("rebalance", rebalance.rebalance(Coordination.SERVER))

    def tick(self) -> None:
        """A glance at a group that rests, else a whole look, as a dashboard's."""
        now_ms, record = self.stage.server.now_ms, self.record()
        self.ticker = Ticker(now_ms, self.ticker.away)
        ticked: Ticked = (record, self.database.version)
        self.stage.count["ticks"] += 1
        with self.stage.spending("tick"):
            if self._rests(ticked):
                return
        self.stage.count["looks"] += 1
        looked = self._carry_out("tick", tick.tick(record, Coordination.SERVER))
        self.rest = None if looked.rest is None else (ticked, looked.rest)

    def _rests(self, ticked: Ticked) -> bool:
        if self.rest is None or self.rest[0] != ticked:
            return False
        rest = self.rest[1]
        seen = glance_of(self._asked, self.keys, self.stage.server.now_ms, rest)
        return resting.may_rest_on(rest, seen, self.ticker.away)

    def _asked(self, *command: Any) -> Any:
        return self.now(command)

    def record(self) -> GroupRecord:
        kept = self.database
        return GroupRecord(
            name=self.group, settings=kept.settings, coordination=kept.coordination,
            mode=kept.mode, pauses=kept.pauses, incarnation=kept.incarnation,
        )  # fmt: skip

    def _carry_out(self, who: str, steps: Steps[Any]) -> Any:
        answer: Any = None
        with self.stage.spending(who):
            while True:
                try:
                    effect = steps.send(answer)
                except StopIteration as end:
                    return end.value
                answer = PERFORM[type(effect)](self, effect)

    def set_target(self, effect: effects.SetTarget) -> Any:
        view, of = effect.view, effect.record
        self.stage.count["targets"] += 1
        return self.call(
            dashboard_side.set_target(view, of.rows, of.cause, left_out=effect.left_out)
        )

    def configure(self, effect: effects.Configure) -> None:
        how = {"rebalance_due": effect.rebalance_due, "over_epoch": effect.over_epoch}
        self.call(
            dashboard_side.configure(
                effect.settings, effect.reason, identity=IDENTITY,
                coordination=effect.coordination, **how,
            )
        )  # fmt: skip

    def raise_incarnation(self, effect: effects.RaiseIncarnation) -> bool:
        done, _ = self.call(
            dashboard_side.set_incarnation(effect.incarnation, effect.run_id, effect.known)
        )
        return bool(done)

    def read_settings(self) -> Any:
        meta = self.read().meta
        return meta.settings, meta.settings_epoch


Perform = Callable[[SimGroup, Any], Any]
PERFORM: Mapping[type[Effect[Any]], Perform] = {
    **database.PERFORM,  # type: ignore[dict-item]
    effects.Read: lambda group, effect: group.call(
        group_read.read_group(effect.purpose, group.ticker)
    ),
    effects.ReadSettings: lambda group, effect: group.read_settings(),
    effects.ReadHints: lambda group, effect: database.hints(group),  # type: ignore[arg-type]
    effects.ReadNow: lambda group, effect: group.server.now_ms,
    effects.ReadRecord: lambda group, effect: group.record(),
    effects.ReadHeld: lambda group, effect: group.call(recovery.hold()),
    effects.Hold: lambda group, effect: group.call(recovery.hold(effect.lease_ms)),
    effects.Run: lambda group, effect: group.call(effect.call),
    effects.Configure: SimGroup.configure,
    effects.RaiseIncarnation: SimGroup.raise_incarnation,
    effects.WantRebalance: lambda group, effect: group.ask_rebalance(),
    effects.SetTarget: SimGroup.set_target,
    effects.Push: lambda group, effect: None,
    effects.LiftStreams: lambda group, effect: {},  # there are no events
}


@dataclass(slots=True, eq=False)
class SimWeb:
    """A member's line to the dashboard."""

    group: SimGroup
    is_busy: bool = False

    def post(self, verb: str, body: bytes, told: Callable[[Any], None]) -> None:
        assert not self.is_busy
        self.is_busy = True
        loop, dice = self.group.stage.loop, self.group.stage.dice
        loop.call_later(dice.uniform(*ANSWER_S), self._answer, verb, body, told)

    def _answer(self, verb: str, body: bytes, told: Callable[[Any], None]) -> None:
        answer = self.group.answer(verb, body)
        self.is_busy = False
        told(answer)

    def drop(self, why: Exception) -> None:
        self.is_busy = False
