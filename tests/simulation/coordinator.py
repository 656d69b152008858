"""A process of the dashboard: ticks, runs rebalances, and may die between any two effects.

The rules and the order of their steps are assignment.coordinator's; here they are carried out on
the fake Redis and on a database of dicts. Nothing keeps two of them from running at once, which is
more than the dashboard's own leases allow.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.coordination.coordinator import Coordinator
from agent.coordination.effects import RedisEffects
from agent.store.door import ScriptCall, StoreUnavailable
from agent.store.group import GroupStore
from assignment.coordinator import draining, effects, reading, rebalance, resting, tick
from assignment.coordinator.effects import Effect, RecordsAway, Steps
from assignment.coordinator.facts import GroupRecord, Lifted, ScaleDowns
from assignment.errors import GroupMissing
from assignment.scripts import dashboard_side, glance, group_read, recovery
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import START, Coordination, Epoch, Reason
from assignment.wire import GroupKeys
from tests.simulation import database, targets
from tests.simulation.agenda import Alarm
from tests.simulation.ledger import demand
from tests.simulation.network import SimDoor

if TYPE_CHECKING:
    from tests.simulation.agents import SimAgent
    from tests.simulation.world import World

IDENTITY = "of the dashboard's database"
TICK_MS = 1_000  # at least; a slow group's is a fifth of its session
STEP_MS = (0, 15)
ASKED_MS = (1, 60)  # from a change to the run of its task


Ticked = tuple[GroupRecord, int]  # what a tick has of a group beside Redis
Ask = Callable[..., Any]  # a command


@dataclass
class Job:
    """A rule that is being carried out, what it decides by, and what was so when that was read."""

    steps: Steps[Any]
    ticked: Ticked | None = None  # it is a tick's
    view: GroupRead | None = None
    advanced: tuple[GroupRead, ScaleDowns] | None = None
    answer: Any = None
    failure: RecordsAway | None = None

    def next_effect(self) -> Effect[Any]:
        answer, failure, self.answer, self.failure = self.answer, self.failure, None, None
        return self.steps.throw(failure) if failure else self.steps.send(answer)


def glance_of(ask: Ask, keys: GroupKeys, now_ms: int, rest: resting.Rest) -> resting.Glance:
    """As dashboard.live.glances reads it. `ask` asks the group's Redis."""
    counted = glance.counted_of(ask("HMGET", keys.meta, *glance.COUNTED))
    beat, end = (ask("ZRANGE", of, "0", "0", "WITHSCORES") for of in (keys.beats, keys.ends))
    applied = ask("HMGET", keys.applied, *rest.awaited) if rest.awaited else ()
    return resting.Glance(
        now_ms=now_ms,
        run_id=glance.run_id_of(ask("INFO", "server") + ask("INFO", "replication")),
        counted=counted,
        oldest_beat_ms=int(float(beat[1])) if beat and rest.patience_ms else None,
        next_end_ms=int(float(end[1])) if end and rest.patience_ms else None,
        applied=glance.applied_of(applied),
    )


class SimCoordinator:
    by = Coordination.SERVER

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name = world, name
        self.up = False
        self.crash_chance = 0.0
        self.paused_until_ms = 0
        self._tick_ms = max(TICK_MS, world.settings.session_timeout_ms // 5)
        self._life = 0
        self._asked = False
        self._raised = 0  # the incarnation that this process set
        self._door = SimDoor(world, self._blocked)
        self.store = GroupStore(self._door, world.name)
        self._run = self.store.run
        self._alarm = Alarm(world.agenda, self._tick_due)
        self.start()

    def start(self) -> None:
        if not self.up:
            self.up, self._asked = True, False
            self._life += 1
            self._alarm.ask(self.world.now_ms + self.world.random.randint(0, self._tick_ms))

    def crash(self, where: str = "") -> None:
        """What it was at is left as it is."""
        self.up = False
        self._life += 1
        self.world.note(self.name, "crashed", where=where)

    def ask_rebalance(self) -> None:
        """One task at a time, as the dashboard coalesces them."""
        if self.up and not self._asked:
            self._asked = True
            delay_ms = self.world.random.randint(*ASKED_MS)
            self.world.agenda.after(delay_ms, partial(self._asked_rebalance, self._life))

    def _asked_rebalance(self, life: int) -> None:
        if life == self._life:
            self._asked = False
            self._rebalance()

    def _rebalance(self) -> None:
        self._carry_out(rebalance.rebalance(Coordination.SERVER))

    def ask_advance(self) -> None:
        """What a person asked of a scale-down is carried out at once, if this process lives."""
        self._carry_out(self._asked_advance())

    def _asked_advance(self) -> Steps[None]:
        view = yield from effects.Read(Purpose.LOOK)
        if view.meta.settings is not None:
            yield from draining.advance(view)

    def _tick_due(self) -> None:
        if self.up:
            self._alarm.ask(self.world.now_ms + self._tick_ms)
            self.world.ticker_lives()
            self.world.trimming.tick()
            if not self.world.database.refuses:
                database.keep_mirror(self.world)
            record, version = self._record(), self.world.database.version
            if self._rests((record, version)):
                self.world.reached["a group rests"] += 1
            else:
                job = Job(tick.tick(record, Coordination.SERVER), (record, version))
                self._next_step(job, self._life)

    def _rests(self, ticked: Ticked) -> bool:
        """As a dashboard knows by one glance; nothing else makes it look."""
        before, rest = self.world.rest
        if rest is None or before != ticked or self.world.database.known.running is not None:
            return False
        try:
            seen = glance_of(self._door.ask, self.world.keys, self.world.server.now_ms, rest)
        except StoreUnavailable:
            return False
        return resting.may_rest_on(rest, seen, self.world.ticker.away)

    def _record(self) -> GroupRecord:
        kept = self.world.database
        return GroupRecord(
            name=self.world.name,
            settings=kept.settings,
            coordination=kept.coordination,
            mode=kept.mode,
            pauses=kept.pauses,
            incarnation=max(kept.incarnation, self._raised),
        )

    # --- steps

    def _carry_out(self, steps: Steps[Any]) -> None:
        self._next_step(Job(steps), self._life)

    def _next_step(self, job: Job, life: int) -> None:
        world = self.world
        if life != self._life:
            return
        if world.now_ms < self.paused_until_ms:
            world.agenda.at(self.paused_until_ms, lambda: self._next_step(job, life))
            return
        try:
            effect = self._perform_next(job)
        except StopIteration as end:
            if job.ticked is not None:
                world.rest = job.ticked, end.value.rest
            if job.advanced:
                world.scale_downs.advanced(*job.advanced)
            return
        except (StoreUnavailable, GroupMissing, RecordsAway):
            return  # what is left undone is done by a later tick
        if world.random.random() < self.crash_chance:
            world.struck["coordinator died at work"] += 1
            self.crash(f"after {type(effect).__name__}")
            world.agenda.after(world.random.randint(100, 3_000), self.start)
            return
        slow = world.random.random() < world.slow_steps
        took_ms = world.random.randint(*(world.slow_step_ms if slow else STEP_MS))
        world.agenda.after(took_ms, lambda: self._next_step(job, life))

    def _perform_next(self, job: Job) -> Effect[Any]:
        """The next effect that somebody else could see; who reads records alone is not seen."""
        while True:
            effect = job.next_effect()
            kind = type(effect)
            try:
                job.answer = self._perform(job, effect)
            except RecordsAway as failure:
                job.failure = failure
            if kind is effects.ReadScaleDowns and job.view is not None and not job.failure:
                job.advanced = job.view, job.answer
            if kind not in UNSEEN:
                return effect

    def _perform(self, job: Job, effect: Effect[Any]) -> Any:
        kind = type(effect)
        if kind in IN_REDIS:
            return IN_REDIS[kind](self, job, effect)
        if self.world.database.refuses and not kind.__name__.startswith("Read"):
            self.world.struck["database refused"] += 1
            raise RecordsAway("simulated")
        return database.PERFORM[kind](self.world, effect)

    def _blocked(self, ms: int) -> None:
        self.paused_until_ms = max(self.paused_until_ms, self.world.now_ms + ms)

    # --- effects

    def _read(self, job: Job, effect: effects.Read) -> GroupRead:
        found = self._run(group_read.read_group(effect.purpose, self.world.ticker))
        job.view = replace(found, meta=reading.ticked(found.meta, self.world.ticker))
        return job.view

    def _read_settings(self, job: Job, effect: effects.ReadSettings) -> Any:
        meta = self._run(group_read.read_group(Purpose.LOOK)).meta
        return meta.settings, meta.settings_epoch

    def _configure(self, job: Job, effect: effects.Configure) -> None:
        due, epoch = effect.rebalance_due, effect.over_epoch
        how = {"rebalance_due": due, "over_epoch": epoch, "identity": IDENTITY}
        how["coordination"] = effect.coordination
        self._run(dashboard_side.configure(effect.settings, effect.reason, **how))
        self.world.trimming.is_read_by(self.world.name)

    def _lift(self, job: Job, effect: effects.LiftStreams) -> Any:
        for partition, offset in effect.offsets.items():
            entries = self.world.entries(partition.number)
            restored = effect.restored.get(partition, START)
            keys = (entries, f"{entries}:producers")
            self._door.run(ScriptCall("lift", keys, [str(offset), str(restored)]))
        return {p: Lifted(0, None) for p in effect.offsets}

    def _raise_incarnation(self, job: Job, effect: effects.RaiseIncarnation) -> bool:
        value = effect.incarnation
        done, _ = self._run(dashboard_side.set_incarnation(value, effect.run_id, effect.known))
        self._raised = max(self._raised, value if done else 0)
        return bool(done)

    def _set_target(self, job: Job, effect: effects.SetTarget) -> Any:
        view, rows = effect.view, effect.record.rows
        targets.target_is_right(view, rows, self.world)
        before, cause = self.world.learning(), effect.record.cause
        refused = self._run(dashboard_side.set_target(view, rows, cause, left_out=effect.left_out))
        targets.whoever_learns_anew_says_so(before, self.world)
        mode = self.world.read().meta.coordination
        demand(refused or mode is self.by, f"a target by the {self.by} under {mode} coordination")
        self.world.note(self.name, "target", epoch=view.meta.group_epoch, answer=refused or "done")
        return refused


IN_REDIS: Mapping[type[Effect[Any]], Callable[[SimCoordinator, Job, Any], Any]] = {
    effects.Read: SimCoordinator._read,
    effects.ReadSettings: SimCoordinator._read_settings,
    effects.ReadHints: lambda self, job, effect: database.hints(self.world),
    effects.ReadNow: lambda self, job, effect: self.world.server.now_ms,
    effects.ReadRecord: lambda self, job, effect: self._record(),
    effects.Run: lambda self, job, effect: self._run(effect.call),
    effects.Configure: SimCoordinator._configure,
    effects.Hold: lambda self, job, effect: self._run(recovery.hold(effect.lease_ms)),
    effects.ReadHeld: lambda self, job, effect: self._run(recovery.hold()),
    effects.LiftStreams: SimCoordinator._lift,
    effects.RaiseIncarnation: SimCoordinator._raise_incarnation,
    effects.WantRebalance: lambda self, job, effect: self.ask_rebalance(),
    effects.SetTarget: SimCoordinator._set_target,
    effects.Push: lambda self, job, effect: None,
}
# Between one of these and what follows it nothing can happen that would matter.
UNSEEN = {
    effects.ReadHints, effects.ReadNow, effects.ReadHeld, effects.WantRebalance, effects.Push,
    effects.WantHistory, effects.KeepFaults, effects.KeepLoss, effects.KeepMode, effects.ReadMirror,
    effects.ReadRequests, effects.ReadRound, effects.ReadTenures, effects.ReadFinished,
    effects.ReadOpen, effects.ReadStays, effects.AdvancePlans,
}  # fmt: skip


class SimAgentCoordinator(SimCoordinator):
    """Beside an agent, as long as that lives: what agent.coordination does, between whose steps
    others come, too.
    """

    by = Coordination.CLIENT

    def __init__(self, agent: "SimAgent") -> None:
        self._agent = agent
        super().__init__(agent.world, f"{agent.name}/c")
        self.store = agent.new_store(self._blocked)
        self._run = self.store.run
        self._turns = Coordinator(
            self.store,
            agent.member_id,
            lambda: Epoch(agent.membership.state.incarnation, agent.membership.state.mode_epoch),
            self.world.memory,
            self._note,
        )
        self._redis = RedisEffects(self.store, self.name, self._note, self.world.memory)

    def wake(self) -> None:
        """Its process goes on."""
        self.paused_until_ms = 0
        self._alarm.ask(self.world.now_ms)

    def hear(self, reasons: Iterable[str]) -> None:
        if Reason.MODE in reasons:
            self._alarm.ask(self.world.now_ms)
        if self._turns.must_look(reasons):
            self.ask_rebalance()

    def _note(self, event: str, **fields: Any) -> None:
        self.world.note(self.name, event, **fields)

    def _tick_due(self) -> None:
        if not self._agent.lives:
            self.up, self._life = False, self._life + 1
            return
        self.paused_until_ms = max(self.paused_until_ms, self._agent.paused_until_ms)
        if self.world.now_ms < self.paused_until_ms:
            self._alarm.ask(self.paused_until_ms)
            return
        try:
            again_ms = self._turns.claim()
            if self._turns.computes:
                self._redis.ticker = self._turns.ticker()
                self._carry_out(tick.tick(self._turns.record(), Coordination.CLIENT))
        except StoreUnavailable:
            again_ms = TICK_MS
        self._alarm.ask(self.world.now_ms + again_ms)

    def _rebalance(self) -> None:
        with suppress(StoreUnavailable):
            if self._turns.due_epoch() is not None:
                self._carry_out(rebalance.rebalance(Coordination.CLIENT))

    def _next_step(self, job: Job, life: int) -> None:
        if self._agent.lives:
            self.paused_until_ms = max(self.paused_until_ms, self._agent.paused_until_ms)
            super()._next_step(job, life)

    def _perform(self, job: Job, effect: Effect[Any]) -> Any:
        match effect:
            case effects.SetTarget():
                return self._set_target(job, effect)
            case effects.WantRebalance():
                return self.ask_rebalance()
        return self._redis.perform(effect)
