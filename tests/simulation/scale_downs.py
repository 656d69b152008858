"""Scale-downs: their records, as the dashboard keeps them, and what must hold of those whom
they concern (learners.md S4 to S9)."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agent.store import ScriptCall, StoreUnavailable
from assignment import scripts
from assignment.coordinator import is_leaving, unable_members
from assignment.coordinator import scale_down as rules
from assignment.coordinator.learners import view_of
from assignment.errors import InvalidInput
from assignment.planner import GroupView
from assignment.scripts import GroupRead
from assignment.types import Drain, Partition, TargetRow
from tests.fakes.values import t
from tests.simulation.claimed import Claimed
from tests.simulation.coordinator import LOST
from tests.simulation.ledger import demand

if TYPE_CHECKING:
    from tests.simulation.world import World

CLEAN, FORCED, DIED, CANCELLED = "clean", "forced", "died", "cancelled"


@dataclass(slots=True)
class Entry:
    outcome: str = ""
    forced: bool = False


@dataclass(slots=True, kw_only=True)
class Record:
    """`timeout_ms`: None for no limit. `aborts`: what it does when its time is up."""

    members: dict[str, Entry]
    asked_at_ms: int
    timeout_ms: int | None = None
    aborts: bool = False
    told_at_ms: int | None = None
    state: str = "running"

    def remaining(self) -> list[str]:
        return [m for m, entry in self.members.items() if not entry.outcome]


@dataclass(frozen=True, slots=True)
class Aborted:
    """Who owned what when a scale-down was taken back, until the first target that knows of it."""

    group_epoch: int
    owners: Mapping[Partition, str]


@dataclass(slots=True)
class ScaleDowns:
    """`records`: the newest first. `told`, `forced`: whoever was, even if Redis forgot it."""

    world: "World"
    records: list[Record] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    forced: set[str] = field(default_factory=set)
    aborted: Aborted | None = None
    _claimed: Claimed = field(default_factory=Claimed)

    # --- what a person does

    @property
    def running(self) -> Record | None:
        return next((r for r in self.records if r.state == "running"), None)

    def start(self, ask: int | Sequence[str], timeout_ms: int | None, *, aborts: bool) -> None:
        """`ask`: the percentage that remains, or who leaves. What would be refused does nothing."""
        if self.running or self.world.server.down:
            return
        view = self.world.read()
        if view.meta.settings is None:
            return
        live = self._live(view)
        try:
            by_percent = isinstance(ask, int)
            leave = (
                rules.leavers_by_percent(live, ask)  # type: ignore[arg-type]
                if by_percent
                else rules.leavers_by_name(live, ask)  # type: ignore[arg-type]
            )
        except InvalidInput:
            return
        if leave:
            members = {m: Entry() for m in leave}
            record = Record(members=members, asked_at_ms=view.now_ms, timeout_ms=timeout_ms)
            self.records.insert(0, replace(record, aborts=aborts))
            self._carry_out()

    def _live(self, view: GroupRead) -> GroupView[Partition]:
        timeout_ms, whole = (
            self.world.settings.session_timeout_ms,
            view_of(view, unable_members(view)),
        )
        there = [
            m for m in whole.members if view.now_ms - view.beats.get(m.member_id, 0) <= timeout_ms
        ]
        return replace(whole, members=there)

    def force(self) -> None:
        """One of those who are left goes at once."""
        if (running := self.running) and (left := running.remaining()):
            running.members[self.world.random.choice(left)].forced = True
            self._carry_out()

    def abort(self) -> None:
        if running := self.running:
            self._cancel(running)
            self._carry_out()

    def _carry_out(self) -> None:
        if (coordinator := self.world.coordinator()) and not self.world.server.down:
            coordinator.ask_advance()

    # --- what a process of the dashboard does, one at a time

    def advance(self, view: GroupRead, run: Any) -> bool:
        """Whether any member was told something new. All of it or, when Redis is away, nothing."""
        before = deepcopy(self.records)
        try:
            running = self.running or self._reopened(view)
            if running:
                self._go_on(running, view)
            return self._tell(running, view, run)
        except StoreUnavailable:
            self.records = before
            raise

    def _reopened(self, view: GroupRead) -> Record | None:
        for record in self.records:
            back = [m for m, e in record.members.items() if e.outcome == DIED and m in view.members]
            if record.state == "done" and back:
                record.state = "running"
                return record
        return None

    def _go_on(self, record: Record, view: GroupRead) -> None:
        if view.now_ms > record.asked_at_ms:
            self._note_outcomes(record, view)
        if not record.remaining():
            record.state = "done"
        elif rules.time_is_up(record.told_at_ms or view.now_ms, view.now_ms, record.timeout_ms):
            if record.aborts:
                self._cancel(record)
            for member in record.remaining():
                record.members[member].forced = True

    def _note_outcomes(self, record: Record, view: GroupRead) -> None:
        gone = [m for m in record.remaining() if m not in view.members]
        went, signalled = self._how_they_went() if gone else ({}, set())
        quiet = view.now_ms < view.meta.quiet_until_ms
        for member in (m for m in gone if m in went or not quiet):
            entry, left = record.members[member], went.get(member) == "leave"
            hurried = entry.forced or member in signalled
            entry.outcome = (FORCED if hurried else CLEAN) if left else DIED
            self.world.reached[f"scale-down: {entry.outcome}"] += 1
        for member, entry in record.members.items():
            if member in view.members and entry.outcome:
                entry.outcome = ""

    def _how_they_went(self) -> tuple[dict[str, str], set[str]]:
        hints = self.world.server.rows(self.world.keys.control)
        said = [(t(hint[b"reason"]), t(hint[b"member"])) for hint in hints]
        went = {member: reason for reason, member in said if reason in ("leave", LOST)}
        return went, {member for reason, member in said if reason == "leaving"}

    def _cancel(self, record: Record) -> None:
        for member in record.remaining():
            record.members[member].outcome = CANCELLED
            self.world.reached["scale-down: cancelled"] += 1
        record.state = "cancelled"

    def _tell(self, running: Record | None, view: GroupRead, run: Any) -> bool:
        wanted = self._wanted(running)
        marked = False
        for drain in Drain:
            members = [
                m
                for m, row in sorted(view.members.items())
                if row.drain is not drain and wanted.get(m, Drain.NONE) is drain
            ]
            if members:
                answer = scripts.set_drain_answer(
                    run("set_drain", scripts.set_drain_args(drain, members))
                )
                marked = marked or bool(answer.members)
        if running and running.told_at_ms is None and wanted.keys() & view.members.keys():
            running.told_at_ms = self.world.server.now_ms
        return marked

    def _wanted(self, running: Record | None) -> dict[str, Drain]:
        done = [r for r in self.records if r.state == "done"]
        wanted = {m: Drain.LEAVING for r in done for m, e in r.members.items() if e.outcome == DIED}
        for member in running.remaining() if running else ():
            forced = running is not None and running.members[member].forced
            wanted[member] = Drain.FORCED if forced else Drain.LEAVING
        return wanted

    # --- what must hold

    def saw(self, call: ScriptCall, answer: Any) -> None:
        self._claimed.saw(call)
        if call.name == "set_drain" and len(answer) > 1:
            self._marked(t(call.args[0]), {t(m) for m in answer[1:]}, answer)
        elif call.name == "set_target" and answer[0] == b"done" and self.aborted:
            read = int(call.args[2])
            since = self.aborted.group_epoch
            demand(read >= since, f"a target of epoch {read} knows nothing of the end at {since}")

    def rolled_back(self) -> None:
        """Redis lost writes: its epochs begin again below that of the end."""
        self.aborted = None

    def _marked(self, drain: str, changed: set[str], answer: Any) -> None:
        self.told |= changed if drain else set()
        self.forced |= changed if drain == "forced" else set()
        if not drain:
            self._taken_back(int(answer[0]))

    def _taken_back(self, group_epoch: int) -> None:
        """S7: learners are dropped in that moment."""
        view = self.world.read()
        learners = sorted(m for m, row in view.target.items() if row.learning)
        demand(not learners, f"a scale-down was taken back and {learners} learn on")
        owners = {
            p: lock.member_id
            for p, lock in view.locks.items()
            if (row := view.target.get(lock.member_id)) and p in row.active
        }
        self.aborted = Aborted(group_epoch, owners)

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
            stays = row is not None and not is_leaving(row) and member not in unable
            if stays and lock is not None and lock.member_id == member:
                kept = partition in rows[member].active
                demand(kept, f"{partition} is taken from {member} after a scale-down's end")

    def departs(self, member: str) -> None:
        """S4, S5: by itself only when it was told to, and owns nothing or its time is up. What ran
        out stays in `owned` until the next grant or sweep: the lock counts.
        """
        if member in self.forced:
            return
        demand(member in self.told, f"{member} departs and was not told to")
        live = self.world.read().locks if not self.world.server.down else {}
        held = sorted(
            claim.partition
            for claim in self._claimed.of[member]
            if (lock := live.get(claim.partition))
            and (lock.member_id, lock.fence) == (member, claim.fence)
        )
        demand(not held, f"{member} departs and owns {held}")
