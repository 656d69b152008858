"""A process of the dashboard: ticks, runs rebalances, and may die between any two of its steps.

The decisions are assignment.coordinator's; the order of the steps is dashboard.coordinator's.
Nothing keeps two of them from running at once, which is more than the dashboard's own leases allow.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.store import ScriptCall, StoreUnavailable
from assignment import coordinator, scripts
from assignment.errors import GroupMissing
from assignment.scripts import GroupRead, Purpose, SnapshotRecord
from assignment.types import GroupSettings, Partition
from assignment.wire import GroupKeys, settings_text
from tests.simulation import checks
from tests.simulation.agenda import Alarm
from tests.simulation.network import SimDoor

if TYPE_CHECKING:
    from tests.simulation.world import World

TICK_MS = 1_000  # at least; a slow group's is a fifth of its session
STEP_MS = (0, 15)
SLOW_STEP_MS = (100, 2_000)  # a database that is busy
ASKED_MS = (1, 60)  # from a change to the run of its task
LOST = "member lost"  # the reason that a tick gives for who is evicted
Job = Iterator[str]


@dataclass
class Database:
    """What outlives Redis."""

    settings: GroupSettings
    incarnation: int = 0
    target_epoch: int = 0
    snapshots: dict[Partition, SnapshotRecord] = field(default_factory=dict)
    no_grants_before_ms: int = 0  # after a wipe


class SimCoordinator:
    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name = world, name
        self.up = False
        self.crash_chance = 0.0
        self.paused_until_ms = 0
        self._tick_ms = max(TICK_MS, world.settings.session_timeout_ms // 5)
        self._life = 0
        self._asked = False
        self._door = SimDoor(world, self._blocked)
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
            life = self._life
            self.world.agenda.after(delay_ms, lambda: self._asked_rebalance(life))

    def _asked_rebalance(self, life: int) -> None:
        if life == self._life:
            self._asked = False
            self._carry_out(self._rebalance())

    def ask_advance(self) -> None:
        """What a person asked of a scale-down is carried out at once, if this process lives."""
        self._carry_out(self._asked_advance())

    def _asked_advance(self) -> Job:
        view = self._read(Purpose.LOOK)
        yield "after a scale-down's look"
        if view.meta.settings is not None:
            self._advance(view)

    def _advance(self, view: GroupRead) -> None:
        """In one transaction: whoever dies before its end has told Redis, and nobody else."""
        scale_downs, world = self.world.scale_downs, self.world
        before = deepcopy(scale_downs.records)
        told = scale_downs.advance(view, self._run)
        if world.random.random() < self.crash_chance:
            scale_downs.records = before
            self.crash("before a scale-down's commit")
            world.agenda.after(world.random.randint(100, 3_000), self.start)
        elif told:
            self.ask_rebalance()

    def _tick_due(self) -> None:
        if self.up:
            self._alarm.ask(self.world.now_ms + self._tick_ms)
            self._carry_out(self._tick())

    # --- steps

    def _carry_out(self, job: Job) -> None:
        self._next_step(job, self._life)

    def _next_step(self, job: Job, life: int) -> None:
        world = self.world
        if life != self._life:
            return
        if world.now_ms < self.paused_until_ms:
            world.agenda.at(self.paused_until_ms, lambda: self._next_step(job, life))
            return
        try:
            where = next(job)
        except (StopIteration, StoreUnavailable, GroupMissing):
            return  # what is left undone is done by a later tick
        if world.random.random() < self.crash_chance:
            world.struck["coordinator died at work"] += 1
            self.crash(where)
            world.agenda.after(world.random.randint(100, 3_000), self.start)
            return
        slow = world.random.random() < world.slow_steps
        took_ms = world.random.randint(*(SLOW_STEP_MS if slow else STEP_MS))
        world.agenda.after(took_ms, lambda: self._next_step(job, life))

    def _blocked(self, ms: int) -> None:
        self.paused_until_ms = max(self.paused_until_ms, self.world.now_ms + ms)

    def _run(self, name: str, args: scripts.Arguments) -> Any:
        return self._door.run(ScriptCall(name, (GroupKeys(self.world.name).meta,), args))

    def _read(self, purpose: Purpose) -> GroupRead:
        timeout_ms = self.world.database.settings.session_timeout_ms
        args = scripts.read_group_args(purpose, timeout_ms)
        return scripts.read_group_answer(self._run("read_group", args))

    # --- the tick, as dashboard.coordinator.ticking

    def _tick(self) -> Job:
        view = self._read(Purpose.TICK)
        yield "after the tick's first look"
        yield from self._tell(view)
        if view.meta.settings is None:
            return
        yield from self._raise_incarnation(view)
        yield from self._end_what_ended(view)
        view = self._read(Purpose.TICK)
        yield "after the tick's second look"
        self._mirror(view)
        if view.meta.settings is not None and view.meta.settings.stateful:
            self._advance(view)
        if coordinator.without_lock(view):
            self._run("request_rebalance", scripts.request_rebalance_args("unable"))
            self.ask_rebalance()
        elif view.meta.group_epoch > view.meta.target_epoch:
            self.ask_rebalance()

    def _tell(self, view: GroupRead) -> Job:
        told, wanted = view.meta.settings, self.world.database.settings
        if told is None and self.world.database.incarnation:
            yield from self._put_back()
        elif told is None or settings_text(told) != settings_text(wanted):
            self._run("configure", scripts.configure_args(wanted, "settings", rebalance_due=True))
            yield "after the settings were told"

    def _put_back(self) -> Job:
        """Redis was wiped: one lease without grants, then on from the last snapshots."""
        database, world = self.world.database, self.world
        database.no_grants_before_ms = world.now_ms + database.settings.lease_ms
        self._run("resume", [str(database.target_epoch), "0"])
        yield "between resume and restore"
        self._run("restore", scripts.restore_args(database.snapshots))
        yield "between restore and configure"
        wanted = database.settings
        self._run("configure", scripts.configure_args(wanted, "redis wiped", rebalance_due=False))

    def _raise_incarnation(self, view: GroupRead) -> Job:
        """The database has it first."""
        database = self.world.database
        wanted = coordinator.needs_incarnation(view, database.incarnation)
        if wanted is None or self.world.now_ms < database.no_grants_before_ms:
            return
        database.incarnation = max(database.incarnation, wanted)
        yield "before the incarnation is told"
        self._run("set_incarnation", scripts.incarnation_args(wanted, view.run_id))

    def _end_what_ended(self, view: GroupRead) -> Job:
        if any(g.ended is None and p not in view.locks for p, g in view.grants.items()):
            self._run("sweep", scripts.sweep_args())
        for gone in coordinator.expired_members(view):
            yield f"before {gone.member} is evicted"
            self._run("evict", scripts.evict_args(gone.member, gone.beat, LOST))

    def _mirror(self, view: GroupRead) -> None:
        self.world.database.snapshots.update({p: r[0] for p, r in view.snapshots.items() if r})

    # --- a rebalance, as dashboard.coordinator.rebalancing

    def _rebalance(self) -> Job:
        view = self._read(Purpose.REBALANCE)
        yield "between read and compute"
        if view.meta.settings is None:
            return
        due = coordinator.next_target(view)
        if isinstance(due, coordinator.Nothing):
            return
        checks.target_is_right(view, due, self.world)
        yield "between compute and store"
        meta = view.meta
        args = scripts.set_target_args(
            meta.coordinator_epoch, meta.mode_epoch, meta.group_epoch, due.rows
        )
        answer = scripts.set_target_answer(self._run("set_target", args))
        self.world.note(self.name, "target", epoch=meta.group_epoch, answer=answer.why or "done")
        yield "between store and publish"
        if answer.done:
            database = self.world.database
            database.target_epoch = max(database.target_epoch, answer.target_epoch)
