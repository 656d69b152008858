"""Scale-downs: what a person does to them, and what must hold of those whom they concern
(learners.md S4 to S9)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agent.store.door import ScriptCall
from assignment.coordinator import draining
from assignment.coordinator.facts import Leaver, ScaleDown
from assignment.coordinator.facts import ScaleDowns as Records
from assignment.coordinator.learners import view_of
from assignment.coordinator.reading import is_leaving, unable_members
from assignment.errors import InvalidInput
from assignment.planner.values import GroupView
from assignment.scripts.group_read import GroupRead
from assignment.types import Drain, Partition, TargetRow
from tests.fakes.values import t
from tests.simulation.ledger import demand

if TYPE_CHECKING:
    from tests.simulation.world import World


Ask = Callable[[GroupView[Partition]], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Aborted:
    """Who owned what when a scale-down was taken back, until the first target that knows of it."""

    group_epoch: int
    owners: Mapping[Partition, str]


@dataclass(slots=True)
class ScaleDowns:
    """`told`, `forced`: whoever was, even if Redis forgot it."""

    world: "World"
    told: set[str] = field(default_factory=set)
    forced: set[str] = field(default_factory=set)
    aborted: Aborted | None = None

    # --- what a person does

    @property
    def running(self) -> ScaleDown | None:
        return self.world.database.known.running

    def start(self, ask: Ask, timeout_ms: int | None = None, *, aborts: bool = False) -> None:
        """`ask`: who leaves of the live members. What would be refused does nothing."""
        world = self.world
        if self.running or world.server.away or world.database.refuses or not world.coordinators:
            return
        view = self.world.read()
        if view.meta.settings is None:
            return
        with suppress(InvalidInput):
            row = ScaleDown(
                pk=len(self.world.database.scale_downs) + 1,
                asked_at_ms=view.now_ms,
                timeout_ms=timeout_ms,
                aborts=aborts,
                members={m: Leaver() for m in ask(self._live(view))},
            )
            if row.members:
                self._change(row)

    def _live(self, view: GroupRead) -> GroupView[Partition]:
        whole = view_of(view, unable_members(view))
        oldest_ms = view.now_ms - self.world.settings.session_timeout_ms
        there = [m for m in whole.members if view.beats.get(m.member_id, 0) >= oldest_ms]
        return replace(whole, members=there)

    def force(self) -> None:
        """One of those who are left goes at once."""
        if (running := self.running) and (left := running.remaining):
            self._change(draining.forced(running, [self.world.random.choice(left)]))

    def abort(self) -> None:
        if running := self.running:
            self.world.reached["scale-down: cancelled"] += len(running.remaining)
            self._change(draining.cancelled(running, self.world.server.now_ms))

    def _change(self, row: ScaleDown) -> None:
        if self.world.database.refuses:
            return
        self.world.database.change(row)
        if (coordinator := self.world.coordinator()) and not self.world.server.away:
            coordinator.ask_advance()

    # --- what must hold

    def saw(self, call: ScriptCall, answer: Any) -> None:
        if call.name == "set_drain" and answer:
            self._marked(t(call.args[0]), {t(m) for m in answer})
        elif call.name == "set_target" and answer[0] == b"done" and self.aborted:
            read = int(call.args[2])
            since = self.aborted.group_epoch
            demand(read >= since, f"a target of epoch {read} knows nothing of the end at {since}")

    def rolled_back(self) -> None:
        """Redis lost writes: its epochs begin again below that of the end."""
        self.aborted = None

    def _marked(self, drain: str, changed: set[str]) -> None:
        self.told |= changed if drain else set()
        self.forced |= changed if drain == "forced" else set()
        if not drain:
            self._taken_back()

    def _taken_back(self) -> None:
        """S7: learners are dropped in that moment."""
        view = self.world.read()
        learners = sorted(m for m, row in view.target.items() if row.learning)
        demand(not learners, f"a scale-down was taken back and {learners} learn on")
        owners = {
            p: lock.member_id
            for p, lock in view.locks.items()
            if (row := view.target.get(lock.member_id)) and p in row.active
        }
        self.aborted = Aborted(view.meta.group_epoch, owners)

    def target_is_right(self, view: GroupRead, rows: Mapping[str, TargetRow]) -> None:
        """S7: owners stay, whatever came in at the moment when it was taken back."""
        aborted = self.aborted
        if aborted is None or view.meta.group_epoch < aborted.group_epoch:
            return
        if view.meta.target_epoch >= aborted.group_epoch:
            self.aborted = None
            return
        unable = unable_members(view)
        for partition, member in aborted.owners.items():
            row, lock = view.members.get(member), view.locks.get(partition)
            if row is None or lock is None or lock.member_id != member:
                continue
            if not is_leaving(row) and member not in unable and partition not in row.unserved:
                kept = partition in rows[member].active
                demand(kept, f"{partition} is taken from {member} after a scale-down's end")

    def advanced(self, view: GroupRead, known: Records) -> None:
        """S7: a process that read records and view has told whoever need not leave any more, if
        these records are the last ones.
        """
        if self.world.server.away or known.version != self.world.database.version:
            return
        now = self.world.read()
        told = {m for m, row in view.members.items() if row.drain is not Drain.NONE}
        still = {m for m, row in now.members.items() if row.drain is not Drain.NONE}
        stray = sorted((told & still) - draining.wanted_drains(known).keys())
        demand(now.run_id != view.run_id or not stray, f"{stray} still leave, by no scale-down")

    def departs(self, member: str) -> None:
        """S4, S5: by itself only when it was told to, and owns nothing or its time is up. What ran
        out stays in `owned` until the next grant or sweep: the lock counts.
        """
        if member in self.forced:
            return
        demand(member in self.told, f"{member} departs and was not told to")
        live = self.world.read().locks if not self.world.server.away else {}
        claims = self.world.ledger.claims[member]
        mine = {p: lock for p, lock in live.items() if lock.member_id == member}
        held = sorted(p for p, lock in mine.items() if (str(p), lock.fence) in claims)
        demand(not held, f"{member} departs and owns {held}")
