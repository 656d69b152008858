"""Many agents as they are, on a fake Redis, in virtual time, with a coordinator that may die."""

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pytest

from agent.dashboard_session.requests import Request
from agent.state import restore
from agent.store.door import ScriptCall, StoreUnavailable
from agent.store.group import GroupStore
from assignment import wire
from assignment.coordinator.reading import ticker_away
from assignment.coordinator.resting import Rest
from assignment.errors import InvalidInput
from assignment.scripts import dashboard_side, group_read, reports, values
from assignment.scripts.group_read import GroupRead, Purpose, Ticker
from assignment.types import Coordination, GroupSettings, Partition
from assignment.wire import GroupKeys, Join, Reply, StreamKeys
from tests.agent.coordinator import answer_to
from tests.fakes import FakeDoor, FakeRedis, streams
from tests.fakes.values import Id, id_of, t
from tests.simulation import checks
from tests.simulation.agenda import Agenda
from tests.simulation.agents import SimAgent
from tests.simulation.coordinator import SimCoordinator, Ticked
from tests.simulation.database import Database
from tests.simulation.ledger import Broken, Kept, Ledger, demand, spoken_for
from tests.simulation.memory import SimMemory
from tests.simulation.network import Network
from tests.simulation.pauses import Pausing
from tests.simulation.redis_troubles import RedisTroubles
from tests.simulation.replicas import DiskState, Files, read_snapshot
from tests.simulation.scale_downs import ScaleDowns
from tests.simulation.trimming import Trimming

TRACE_KEPT = 300
ROWS_KEPT = 4_096  # of members, reports and targets: most are read again as they were
ROWS_READ_BY = ((group_read, "read_member"), (reports, "read_report"), (wire, "parse_target"))
FIELD_MAX = 200  # characters
SLOW_STEP_MS = (100, 2_000)  # of a coordinator whose database is busy
EVENT_MS = (30, 250)  # between two events
LOOK_MS = 100  # how often a condition is looked at
STEPS_MAX = 3_000_000
FAST = {
    "lease_ms": 1_500, "renew_ms": 500, "session_timeout_ms": 1_200, "heartbeat_ms": 300,
    "grace_ms": 1_000, "consumer_stall_ms": 2_000, "instance_timeout_ms": 4_000,
}  # fmt: skip
Noted = tuple[int, str, str, dict[str, Any]]  # ms, who, what, fields


@contextmanager
def simulated() -> Iterator[None]:
    """Snapshots are where a DiskState has them. Rows that were read once are kept: a large group's
    would take most of the time. A server drops whole nodes, which few events would fill.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restore, "snapshot_steps", read_snapshot)
        patch.setattr(streams, "NODE", 1)
        for module, name in ROWS_READ_BY:
            patch.setattr(module, name, lru_cache(ROWS_KEPT)(getattr(module, name)))
        yield


class World:
    name = "sim"

    def __init__(
        self, seed: int, *, coordinators: int = 1, instances: float = 0, trace: bool = False,
        coordination: Coordination = Coordination.SERVER, **changes: Any,
    ) -> None:  # fmt: skip
        """`instances`: how many of the members have an instance name, about."""
        random.seed(seed)  # the jitter of the agents
        self.random = random.Random(seed)
        self._instances = instances
        self.server = FakeRedis()
        self.agenda = Agenda(self.random, self.server.now_ms)
        self.keys = GroupKeys(self.name)
        self.network = Network()
        self.restore_failures = 0.05
        self.steps_are_quick()
        self.redis = RedisTroubles(self)
        self.files: Files = {}
        self.agents: list[SimAgent] = []
        self.struck: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()  # of what a stateful group can come to
        self.producing = True
        self._started_ms = self.server.now_ms
        self._trace_all = trace
        self.trace: deque[Noted] = deque(maxlen=TRACE_KEPT)
        self.faults: list[Noted] = []
        settings = GroupSettings(**({"stream": "s", "partitions": 8} | FAST | changes))
        self.database = Database(settings, coordination)
        self.memory = SimMemory()
        self.agents_may_coordinate = coordination is Coordination.CLIENT
        self.ticker = Ticker()
        self.rest: tuple[Ticked | None, Rest | None] = None, None  # as dashboards keep it
        self.ledger = Ledger(self)
        self.connect()
        self.scale_downs = ScaleDowns(self)
        self.pausing = Pausing(self)
        self.trimming = Trimming(self, seed)
        self._watch = checks.Watch()
        self._hints_told: dict[str, Id] = {}  # the last id of each stream
        self._named = 0
        self._read_at = ("", 0, 0)
        self._moved = False  # a script ran since the last look
        self.healed = self.misfits_ended = False
        self.coordinators = [SimCoordinator(self, f"c{n}") for n in range(coordinators)]
        self.agenda.after(0, self._produce)

    # --- what is there

    @property
    def now_ms(self) -> int:
        return self.agenda.now_ms

    @property
    def redis_ms(self) -> int:
        """What the clock of Redis says."""
        return self.now_ms + self.redis.ahead_ms

    @property
    def settings(self) -> GroupSettings:
        return self.database.settings

    def entries(self, number: int) -> str:
        return StreamKeys(self.settings.stream).entries(number)

    def add(self, name: str, *machine: Any, instance: bool = False) -> SimAgent:
        """`machine`: see SimAgent."""
        self.agents.append(SimAgent(self, name, *machine, instance=instance))
        return self.agents[-1]

    def add_one(self, disk: Any = None) -> SimAgent:
        """Under a name that nobody had."""
        self._named += 1
        instance = self._instances > self.random.random() if self._instances else False
        return self.add(f"m{self._named}", disk, instance=instance)

    def add_misfit(self, has_group: bool) -> None:
        """With another Redis, which may have a group of that name."""
        redis = FakeRedis(self.redis_ms)
        if has_group:
            call = dashboard_side.configure(
                self.settings, "another", rebalance_due=False, identity="another"
            )
            redis.run_script(call.script, [self.keys.meta], call.args)
        self._named += 1
        self.add(f"m{self._named}", {}, redis)

    def join_again_and_again(self, member: str, *, anew: bool) -> None:
        """Until misfits end, by one member or each time by another."""
        if self.misfits_ended:
            return
        name = f"{member}{self.agenda.steps}" if anew else member
        self.dashboard_answers(Join(member=name, secret=f"secret of {member}", host="m"))
        pause_ms = self.random.randint(100, self.settings.session_timeout_ms)
        self.agenda.after(pause_ms, lambda: self.join_again_and_again(member, anew=anew))

    @property
    def liars(self) -> set[str]:
        return {a.member_id for a in self.agents if a.lies}

    def end_misfits(self) -> None:
        """Until here the others had to do with them."""
        self.misfits_ended = True
        for agent in self.living():
            if agent.misfit:
                agent.kill()

    def later(self, ms: int, what: Callable[[], Any]) -> None:
        """Part of a fault: it does not happen any more once all faults have ended."""
        self.agenda.after(ms, lambda: None if self.healed else what())

    def living(self) -> list[SimAgent]:
        return [a for a in self.agents if a.lives]

    def in_hand(self, member: str, partition: Partition, fence: int) -> bool:
        return any(
            a.process.in_hand(partition, fence) for a in self.agents if a.member_id == member
        )

    def replica_of(self, member: str, partition: Partition, fence: int) -> DiskState | None:
        """Of the process that holds it under that fence."""
        mine = (a for a in self.living() if a.member_id == member)
        for agent in mine:
            holding = agent.membership.state.held.get(partition)
            if holding and holding.fence == fence:
                return agent.replica_of(partition)
        return None

    def note_fault(self, name: str, **fields: Any) -> None:
        self.note("FAULT", name, **fields)
        self.faults.append(self.trace[-1])

    def note(self, who: str, event: str, **fields: Any) -> None:
        self.trace.append((self.now_ms - self._started_ms, who, event, fields))

    def story(self, last: int = TRACE_KEPT) -> str:
        """Its faults, and the last steps."""
        steps = list(self.trace)[-last:]
        return "\n".join(as_line(*entry) for entry in [*self.faults, *steps])

    # --- time

    def step(self) -> None:
        self.agenda.step()
        self.server.now_ms = self.redis_ms
        if self._moved:
            self._moved = False
            self._watch.look(self)
        if self.agenda.steps > STEPS_MAX:
            raise Broken(f"no end after {STEPS_MAX} steps")

    def run_for(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        self.agenda.at(end_ms, lambda: None)
        while self.now_ms < end_ms:
            self.step()

    def run_until(self, fact: Callable[["World"], bool], within_ms: int, what: str) -> int:
        """How long it took; Broken when it did not come true within that (virtual) time."""
        began_ms = self.now_ms
        while not fact(self):
            if self.now_ms - began_ms >= within_ms:
                raise Broken(f"not within {within_ms} ms: {what}; {checks.unsettled(self)}")
            self.run_for(LOOK_MS)
        return self.now_ms - began_ms

    def _produce(self) -> None:
        self.append(self.random.randrange(self.settings.partitions))
        self.agenda.after(self.random.randint(*EVENT_MS), self._produce)

    def append(self, number: int) -> None:
        if self.producing and not self.server.away:
            event = self.ledger.events
            entry_id = self.server.ask("XADD", self.entries(number), "*", "event", event)
            self.ledger.appended(f"{self.settings.stream}:{number}", id_of(entry_id))

    # --- Redis

    def connect(self) -> None:
        self.door = FakeDoor(self.server)
        self.store = GroupStore(self.door, self.name)

    def execute(self, call: ScriptCall, door: FakeDoor | None = None) -> Any:
        """Runs a script; the ledger sees it, and those whom its hints concern hear of them."""
        self.server.now_ms = self.redis_ms
        answer = (door or self.door).run(call)
        self._moved = True
        if self._trace_all:
            args = " ".join(t(a)[:60] for a in call.args)
            self.note("redis", call.name, args=args, answer=answer)
        self.ledger.saw(call, answer)
        self.scale_downs.saw(call, answer)
        self.pausing.saw(call, answer)
        self._spread_hints()
        return answer

    def execute_late(self, call: ScriptCall) -> None:
        if not self.server.away:
            self.note("network", "arrives late", what=call.name)
            if call.name == "next_batch":
                self.ledger.ended_early.add(spoken_for(call.args))
            self.execute(call)

    def run(self, call: values.Call[Any]) -> Any:
        return self._answered(call, self.execute)

    def _answered(self, call: values.Call[Any], execute: Callable[[ScriptCall], Any]) -> Any:
        return call.read(execute(ScriptCall(call.script, (self.keys.meta,), call.args)))

    def read(self) -> GroupRead:
        """The group as it is; whoever looks at the same moment gets the same."""
        server = self.server
        moment = server.replication_id, server.offset, server.now_ms
        if moment != self._read_at or server.away:
            self._read = self._answered(group_read.read_group(Purpose.LOOK), self.door.run)
            self._read_at = server.replication_id, server.offset, server.now_ms
        return self._read

    def learning(self) -> dict[str, frozenset[Partition]]:
        """By the stored target, of each member."""
        if self.server.away or not self.settings.stateful:
            return {}
        return {m: row.learning for m, row in self.read().target.items()}

    def _spread_hints(self) -> None:
        heard, self._hints_told = self._hints_told, self._last_hints()
        for stream, last_id in self._hints_told.items():
            if last_id == heard.get(stream, (0, 0)):
                continue
            for hint in self.server.rows(stream, heard.get(stream, (0, 0))):
                for agent in self._listeners(stream):
                    agent.hint(t(hint[b"reason"]))

    def _listeners(self, stream: str) -> list[SimAgent]:
        calls = stream == self.keys.calls
        of = (a for a in self.agents if a.lives)
        return [a for a in of if calls or stream == self.keys.hints(a.member_id)]

    def _last_hints(self) -> dict[str, Id]:
        """Of each stream that anybody listens to and that is there, its last id."""
        members = {agent.member_id for agent in self.agents}
        streams = (self.keys.calls, *map(self.keys.hints, sorted(members)))
        ends = {stream: self.server.entries(stream) for stream in streams}
        return {stream: entries[-1][0] for stream, entries in ends.items() if entries}

    def switch(self) -> None:
        """To the other coordination, if anybody could compute then: nothing else changes."""
        self.server.now_ms = self.redis_ms  # else locks run out in between
        if self.server.away or (meta := self.read().meta).settings is None:
            return
        mode = Coordination.CLIENT
        if meta.coordination is mode:
            mode = Coordination.SERVER
        if mode is Coordination.SERVER and not self.coordinators:
            return
        self.agents_may_coordinate = True
        for agent in self.living():
            agent.may_coordinate()
        before = self.fences(), self.read().target, meta.group_epoch
        done = self.run(dashboard_side.set_mode(meta.mode, mode, "a person", "simulated")).done
        demand(done, f"a switch to {mode} was refused")
        after = self.fences(), self.read().target, self.read().meta.group_epoch
        demand(after == before, f"the switch to {mode} made {before} to {after}")
        self.struck["coordination was switched"] += 1

    def rolled_back(self, books: Kept, paused: frozenset[str] = frozenset()) -> None:
        """Whoever looks on goes on from what Redis has now."""
        self.pausing.rolled_back(paused)
        self.ledger.rolled_back(books)
        self.scale_downs.rolled_back()
        self._hints_told = self._last_hints()

    # --- the dashboard

    def steps_are_quick(self) -> None:
        self.slow_steps, self.slow_step_ms = 0.04, SLOW_STEP_MS

    def coordinator(self) -> SimCoordinator | None:
        """One that answers now."""
        there = [c for c in self.coordinators if c.up and self.now_ms >= c.paused_until_ms]
        return self.random.choice(there) if there else None

    def database_returns_as(self, copy: Database) -> None:
        copy.settings, copy.refuses = self.database.settings, False
        self.database = copy
        self.struck["database restored"] += 1

    def ticker_lives(self) -> None:
        """As whoever ticks keeps it in Redis."""
        now_ms = self.server.now_ms
        seen_ms, away, _ = self.ticker
        self.ticker = Ticker(now_ms, ticker_away(now_ms, seen_ms or None, away))

    def dashboard_answers(self, message: Request) -> Reply | None:
        coordinator = self.coordinator()
        if (coordinator is None and self.coordinators) or self.server.away:
            return None
        try:
            reply = answer_to(self.run, self.settings, message)
        except (StoreUnavailable, InvalidInput):
            return None
        meta = self.server.hash(self.keys.meta)
        if coordinator and meta.get(b"group_epoch") != meta.get(b"target_epoch"):
            coordinator.ask_rebalance()
        return reply

    def fences(self) -> dict[str, dict[int, int]]:
        return checks.fences(self)


def as_line(at_ms: int, who: str, event: str, fields: dict[str, Any]) -> str:
    told = (f"{name}={str(value)[:FIELD_MAX]}" for name, value in fields.items() if value != "")
    return f"{at_ms:>8} {who:<8} {event} {' '.join(told)}"
