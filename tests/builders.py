"""Values with defaults for tests: say what the test is about, leave the rest."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assignment.scripts.group_read import GroupRead, MemberRow, Meta
from assignment.scripts.held import Lock
from assignment.scripts.reports import Report
from assignment.strategies.given import StrategyInput
from assignment.types import (
    INCARNATION_STEP,
    Drain,
    Grant,
    GroupSettings,
    Held,
    HeldState,
    Member,
    Partition,
    ReplicaReport,
    Role,
    TargetRow,
)

STREAM = "flights"
NOW = 1_700_000_000_000
RUN = "0123456789abcdef"
LEASE_MS, SESSION_MS, GRACE_MS = 10_000, 10_000, 8_000


def fence(counter: int, incarnation: int = 1) -> int:
    return incarnation * INCARNATION_STEP + counter


def partition(number: int, stream: str = STREAM) -> Partition:
    return Partition(stream, number)


def partitions(*numbers: int, stream: str = STREAM) -> frozenset[Partition]:
    return frozenset(Partition(stream, number) for number in numbers)


def settings(**changed: Any) -> GroupSettings:
    return GroupSettings(**({"stream": STREAM, "partitions": 12} | changed))


def member(
    member_id: str,
    owns: Iterable[int] = (),
    *,
    at: int = 1,
    reads: Iterable[str] | None = None,
    **fields: Any,
) -> Member:
    """One that claims partitions of the default stream under fence `at`."""
    return Member(
        member_id=member_id,
        owned={Partition(STREAM, number): at for number in owns},
        subscription=None if reads is None else frozenset(reads),
        **fields,
    )


def given(*members: Member, **topics: int) -> StrategyInput:
    return StrategyInput(members=members, topics=topics or {STREAM: 12})


@dataclass(frozen=True, kw_only=True)
class Live:
    """A member of a group in Redis. Unless told otherwise: it reports what it owns, holds the locks
    of just that, and the stored target gives it just that."""

    member_id: str
    owns: Mapping[int, int] = field(default_factory=dict)  # number -> fence counter
    locked: Mapping[int, int] | None = None
    target: frozenset[int] | None = None
    in_target: bool = True
    reported: bool = True
    able: bool = True
    leaving: bool = False
    drain: Drain = Drain.NONE
    stopped: bool = False
    away_since_ms: int = 0
    standby: frozenset[int] = frozenset()  # of the stored target, as is learning
    learning: frozenset[int] = frozenset()
    replicas: Mapping[int, ReplicaReport] = field(default_factory=dict)  # as reported
    ready: frozenset[int] = frozenset()
    unserved: frozenset[int] = frozenset()
    zone: str = ""
    capacity: float = 1.0
    joined_at_ms: int = NOW - 600_000
    able_at_ms: int = NOW - 500_000
    beat_at_ms: int = NOW
    asked_at_ms: int | None = None
    unable: str = ""  # as reported

    @property
    def locks(self) -> Mapping[int, int]:
        return self.owns if self.locked is None else self.locked


def live(member_id: str, owns: Iterable[int] | Mapping[int, int] = (), **fields: Any) -> Live:
    """`owns`: partition numbers, under fence counter 1, or number -> fence counter."""
    counters = owns if isinstance(owns, Mapping) else dict.fromkeys(owns, 1)
    for name in ("standby", "learning", "ready", "unserved"):
        fields[name] = frozenset(fields.get(name, ()))
    target = fields.pop("target", None)
    return Live(
        member_id=member_id,
        owns=counters,
        target=None if target is None else frozenset(target),
        **fields,
    )


def group(
    *members: Live,
    settings: GroupSettings | None = None,
    grants: Mapping[int, Grant] | None = None,
    run_id: str = RUN,
    **meta: Any,
) -> GroupRead:
    """What read_group answers, as a plan sees it: group_epoch 8 above target_epoch 7."""
    epochs = {"group_epoch": 8, "target_epoch": 7, "coordinator_epoch": 3, "mode_epoch": 1}
    epochs |= {"incarnation": 1, "target_at_ms": NOW - 400_000, "tick_ms": NOW}
    told = Meta(
        **(epochs | {"run_id": RUN, "settings": settings or default_settings()} | meta),
    )
    return GroupRead(
        now_ms=NOW,
        run_id=run_id,
        meta=told,
        members={m.member_id: _row(m) for m in members},
        beats={m.member_id: m.beat_at_ms for m in members},
        reports={m.member_id: _report(m) for m in members if m.reported},
        asked={m.member_id: m.asked_at_ms for m in members if m.asked_at_ms is not None},
        target={m.member_id: _target(m, told.target_epoch) for m in members if m.in_target},
        grants=_grants(members) | {partition(n): grant for n, grant in (grants or {}).items()},
        locks={
            partition(n): Lock(m.member_id, fence(counter), LEASE_MS)
            for m in members
            for n, counter in m.locks.items()
        },
        offsets={},
        applied={},
        snapshots={},
    )


default_settings = settings  # `group` has an argument of that name


def learner(lag: int = -1, *, ready: bool = False) -> ReplicaReport:
    return ReplicaReport(role=Role.LEARNER, lag=lag, ready=ready)


def standby(lag: int = -1, *, ready: bool = False, why: str = "") -> ReplicaReport:
    return ReplicaReport(role=Role.STANDBY, lag=lag, ready=ready, why=why)


def grant(member_id: str, counter: int = 1, **fields: Any) -> Grant:
    return Grant(
        **({"fence": fence(counter), "member_id": member_id, "until_ms": NOW + LEASE_MS} | fields)
    )


def _row(member: Live) -> MemberRow:
    return MemberRow(
        member_id=member.member_id,
        joined_at_ms=member.joined_at_ms,
        able=member.able,
        able_at_ms=member.able_at_ms,
        leaving=member.leaving,
        drain=member.drain,
        stopped=member.stopped,
        away_since_ms=member.away_since_ms,
        ready=partitions(*member.ready),
        unserved=partitions(*member.unserved),
        zone=member.zone,
        capacity=member.capacity,
    )


def _report(member: Live) -> Report:
    return Report(
        number=1,
        sequence=1,
        at_ms=member.beat_at_ms,
        unable=member.unable,
        owned={
            partition(n): Held(fence=fence(counter), state=HeldState.RUNNING)
            for n, counter in member.owns.items()
        },
        replicas={partition(n): replica for n, replica in member.replicas.items()},
    )


def _target(member: Live, epoch: int) -> TargetRow:
    numbers = member.owns if member.target is None else member.target
    return TargetRow(
        target_epoch=epoch,
        incarnation=1,
        active=partitions(*numbers),
        standby=partitions(*member.standby),
        learning=partitions(*member.learning),
    )


def _grants(members: Iterable[Live]) -> dict[Partition, Grant]:
    return {
        partition(n): grant(m.member_id, counter) for m in members for n, counter in m.locks.items()
    }
