"""A stateful group as its coordinator sees it in Redis, and as it is: for the planner's rounds.

The decisions are assignment.coordinator's and the planner's; what the scripts do is done here in
short.
"""

import random
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Any

from assignment.coordinator import planning
from assignment.scripts.group_read import GroupRead, Lock, MemberRow, Meta, Report
from assignment.types import (
    INCARNATION_STEP,
    Drain,
    Grant,
    GroupSettings,
    Partition,
    TargetRow,
)
from tests.simulation.actors import Actor, Locks
from tests.simulation.round_checks import decision_is_right

NOW_MS = 1_700_000_000_000
RUN = "run"
LONG_MS = 3_600_000  # no lease ends and no patience is over by itself
TRACE_KEPT = 400
STREAM = "s"


@dataclass(frozen=True, slots=True)
class Pending:
    """A target that was computed and is not stored yet."""

    coordinator_epoch: int
    group_epoch: int
    rows: dict[str, TargetRow]


@dataclass(frozen=True, slots=True)
class InFlight:
    """A report that was sent and has not arrived."""

    member: str
    report: Report
    able: bool
    leaving: bool
    ready: frozenset[Partition]


@dataclass(slots=True)
class ScaleDown:
    """Who was told to leave, in the database."""

    leavers: dict[str, Drain] = field(default_factory=dict)


class Rounds:
    def __init__(self, seed: int, settings: GroupSettings) -> None:
        self.random = random.Random(seed)
        self.settings = settings
        self.actors: dict[str, Actor] = {}
        self.locks = Locks()
        self.rows: dict[str, MemberRow] = {}
        self.reports: dict[str, Report] = {}
        self.target: dict[str, TargetRow] = {}
        self.epochs = Counter({"group": 0, "target": 0, "coordinator": 0})
        self.pending: list[Pending] = []
        self.in_flight: dict[str, InFlight] = {}
        self.record = ScaleDown()
        self.steps = 0
        self.targets = 0
        self.named = 0
        self.trace: deque[str] = deque(maxlen=TRACE_KEPT)

    def note(self, text: str, **fields: Any) -> None:
        told = " ".join(f"{name}={value}" for name, value in fields.items())
        self.trace.append(f"{self.steps:>5} {text} {told}")

    # --- what Redis has

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return self.settings.all_partitions()

    def view(self) -> GroupRead:
        """As read_group answers it, in whatever order."""
        members = list(self.rows)
        self.random.shuffle(members)
        holders = {p: held for p, held in self.locks.holder.items() if held[0] in self.rows}
        return GroupRead(
            now_ms=NOW_MS,
            run_id=RUN,
            meta=self._meta(),
            members={m: self.rows[m] for m in members},
            beats=dict.fromkeys(members, NOW_MS),
            reports={m: self.reports[m] for m in members if m in self.reports},
            asked={},
            target={m: self.target[m] for m in members if m in self.target},
            grants={
                p: Grant(fence=f, member_id=m, until_ms=NOW_MS) for p, (m, f) in holders.items()
            },
            locks={p: Lock(m, f, LONG_MS) for p, (m, f) in holders.items()},
            offsets={},
            applied={},
            snapshots={},
        )

    def _meta(self) -> Meta:
        return Meta(
            mode_epoch=1,
            group_epoch=self.epochs["group"],
            target_epoch=self.epochs["target"],
            target_at_ms=NOW_MS,
            coordinator_epoch=self.epochs["coordinator"],
            incarnation=1,
            run_id=RUN,
            tick_ms=NOW_MS,
            settings=self.settings,
        )

    def changed(self, reason: str) -> None:
        self.epochs["group"] += 1
        self.note(reason, epoch=self.epochs["group"])

    # --- members

    def join(self, **fields: Any) -> Actor:
        self.named += 1
        actor = Actor(member_id=f"m{self.named}", joined_at_ms=NOW_MS + self.named, **fields)
        self.actors[actor.member_id] = actor
        self.rows[actor.member_id] = MemberRow(
            member_id=actor.member_id,
            joined_at_ms=actor.joined_at_ms,
            zone=actor.zone,
            capacity=actor.capacity,
            drain=self.record.leavers.get(actor.member_id, Drain.NONE),
        )
        self.changed(f"{actor.member_id} joined")
        return actor

    def crash(self, member: str) -> None:
        """Its session ends later: see `evict`."""
        del self.actors[member]
        self.in_flight.pop(member, None)
        self.note(f"{member} crashed")

    def evict(self, member: str) -> None:
        """Also when it left by itself: its locks end, and what Redis had of it goes."""
        for partition in self.locks.of(member):
            del self.locks.holder[partition]
        for known in (self.rows, self.reports, self.target):
            known.pop(member, None)
        self.record.leavers.pop(member, None)
        self.changed(f"{member} is gone")

    def ghosts(self) -> list[str]:
        """Members that have crashed and are still in Redis."""
        return sorted(self.rows.keys() - self.actors.keys())

    def hear(self, actor: Actor) -> None:
        """Reads its row of the target, and whether it is to leave."""
        row = self.rows[actor.member_id]
        if row.drain is not actor.drain:
            actor.drain, actor.drain_since = row.drain, self.epochs["group"]
        told = self.target.get(actor.member_id)
        if told is not None and (actor.told is None or told.target_epoch > actor.told.target_epoch):
            actor.told = told

    def act(self, actor: Actor) -> None:
        actor.obey(self.locks, self.settings.stateful, INCARNATION_STEP)
        if actor.departs(self.locks):
            del self.actors[actor.member_id]
            self.in_flight.pop(actor.member_id, None)
            self.note(f"{actor.member_id} departs")
            self.evict(actor.member_id)

    def send(self, actor: Actor) -> None:
        """A report at a time; it may arrive late."""
        if actor.member_id not in self.in_flight:
            lag = self.settings.acceptable_lag_records
            eager = self.settings.learn_partial_rebalance
            report = actor.report(self.locks, lag, eager=eager)
            self.in_flight[actor.member_id] = InFlight(
                actor.member_id, report, actor.able, actor.terminated, actor.called
            )

    def arrive(self, member: str) -> None:
        """As report.lua: what a plan depends on makes a new epoch."""
        sent, row = self.in_flight.pop(member), self.rows[member]
        self.reports[member] = sent.report
        news = sent.ready - row.ready or (row.able, row.leaving) != (sent.able, sent.leaving)
        self.rows[member] = replace(row, able=sent.able, leaving=sent.leaving, ready=sent.ready)
        if news:
            self.changed(f"{member} able={sent.able} ready={sorted(p.number for p in sent.ready)}")

    # --- coordinators, which remember nothing

    def compute(self) -> None:
        self.epochs["coordinator"] += 1
        view = self.view()
        due = planning.next_target(view)
        if isinstance(due, planning.Target):
            decision_is_right(view, due.rows, self)
            self.pending.append(Pending(due.coordinator_epoch, due.group_epoch, dict(due.rows)))

    def store(self, pending: Pending) -> bool:
        """As set_target.lua."""
        self.pending.remove(pending)
        overtaken = pending.coordinator_epoch != self.epochs["coordinator"]
        if overtaken or pending.group_epoch <= self.epochs["target"]:
            return False
        nothing = TargetRow(target_epoch=pending.group_epoch)
        rows = {m: pending.rows.get(m, nothing) for m in self.rows}
        self._forget_ready(rows)
        self.target = rows
        self.epochs["target"] = pending.group_epoch
        self.targets += 1
        self.note(f"target {pending.group_epoch}", rows=in_short(rows))
        return True

    def _forget_ready(self, rows: dict[str, TargetRow]) -> None:
        """A learner that is placed anew says ready anew."""
        for member, row in rows.items():
            before = self.target[member].learning if member in self.target else frozenset()
            kept = {p for p in self.rows[member].ready if p in before or p not in row.learning}
            self.rows[member] = replace(self.rows[member], ready=frozenset(kept))

    # --- scale-downs

    def tell(self, drain: Drain, members: list[str]) -> None:
        """As mark.lua, and the record in the database."""
        told = [m for m in members if m in self.rows and self.rows[m].drain is not drain]
        for member in told:
            self.rows[member] = replace(self.rows[member], drain=drain)
            self.record.leavers[member] = drain
        if told:
            self.changed(f"{drain.value or 'stay'}: {','.join(told)}")

    @property
    def staying(self) -> list[Actor]:
        """Alive, able, and neither told nor asked to go."""
        return [
            a
            for m, a in sorted(self.actors.items())
            if a.able and not a.terminated and self.rows[m].drain is Drain.NONE
        ]


def in_short(rows: dict[str, TargetRow]) -> str:
    """m1{a01 l2} ..., as learners.md writes it."""
    kinds = (("a", "active"), ("s", "standby"), ("l", "learning"))
    parts = []
    for member, row in sorted(rows.items()):
        roles = {k: sorted(p.number for p in getattr(row, name)) for k, name in kinds}
        told = " ".join(f"{k}{','.join(map(str, ns))}" for k, ns in roles.items() if ns)
        parts.append(f"{member}{{{told}}}")
    return " ".join(parts)
