"""What members report of partitions, as it is shown: who keeps or learns which one's state and how
far it is, which stand still, which cannot be served.

Pure. Who has which replica is what the target says; how far it is what its member reports, None
where it has not yet. What a member that is gone said is gone with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assignment.coordinator.reading import is_leaving
from assignment.scripts.group_read import GroupRead, Lock, Report
from assignment.troubles import Halted, read_trouble
from assignment.types import Coordination, Partition, ReplicaReport


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReplica:
    member: str
    ready: bool = False
    percent: float | None = None  # restored, 0 to 100
    lag_records: int | None = None
    rate: float | None = None  # events a second
    eta_ms: int | None = None  # until it has caught up
    why: str = ""  # a trouble in one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReplicas:
    """`learner` also stays while it is owner by the target and waits for the lock."""

    standbys: tuple[LiveReplica, ...] = ()  # by member id
    learner: LiveReplica | None = None


NO_REPLICAS = LiveReplicas()


class Mode(NamedTuple):
    """`computes`: the member that does where agents coordinate; "": none at this moment."""

    coordination: Coordination = Coordination.SERVER
    epoch: int = 0
    computes: str = ""


UNKNOWN_MODE = Mode()


def replicas_of(read: GroupRead) -> Mapping[Partition, LiveReplicas]:
    """Partitions without any replica are left out."""
    learners = _learners(read)
    standbys: dict[Partition, list[LiveReplica]] = {}
    for member, row in sorted(read.target.items()):
        for partition in row.standby:
            standbys.setdefault(partition, []).append(replica_of(read, member, partition))
    return {
        p: LiveReplicas(
            standbys=tuple(standbys.get(p, ())),
            learner=replica_of(read, learners[p], p) if p in learners else None,
        )
        for p in standbys.keys() | learners.keys()
    }


def _learners(read: GroupRead) -> dict[Partition, str]:
    found = {p: member for member, row in read.target.items() for p in row.learning}
    for member, row in read.target.items():
        for partition in row.active:
            lock = read.locks.get(partition)
            if lock and lock.member_id != member and _report(read, member, partition):
                found.setdefault(partition, member)
    return found


def replica_of(read: GroupRead, member: str, partition: Partition) -> LiveReplica:
    report, row = _report(read, member, partition), read.members.get(member)
    called = row is not None and partition in row.ready
    if report is None:
        return LiveReplica(member=member, ready=called)
    return LiveReplica(
        member=member,
        ready=called or report.ready,
        percent=report.percent,
        lag_records=None if report.lag < 0 else report.lag,
        rate=report.rate,
        eta_ms=report.eta_ms,
        why=report.why,
    )


def _report(read: GroupRead, member: str, partition: Partition) -> ReplicaReport | None:
    report = read.reports.get(member)
    return report.replicas.get(partition) if report else None


# --- troubles -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveUnserved:
    """`reason`: of UnservedReason; the member tries again at `until_ms`, as far as it has said."""

    member: str
    reason: str = ""
    why: str = ""
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """`unserved`: partition -> member, ascending -> what it says of it."""

    halted: Mapping[tuple[Partition, str], Halted]
    unserved: Mapping[Partition, Mapping[str, LiveUnserved]]
    may_own: frozenset[str]

    @classmethod
    def of(cls, read: GroupRead) -> "Troubles":
        halted = {
            (one.partition, member): one
            for member, report in read.reports.items()
            for said in report.consumer.halted
            for one in (read_trouble(Halted, said),)
        }
        unserved: dict[Partition, dict[str, LiveUnserved]] = {}
        for member, row in sorted(read.members.items()):
            for partition in row.unserved:
                said = _unserved(member, partition, read.reports.get(member))
                unserved.setdefault(partition, {})[member] = said
        may_own = (m for m, row in read.members.items() if row.able and not is_leaving(row))
        return cls(halted=halted, unserved=unserved, may_own=frozenset(may_own))

    def halt(self, partition: Partition, lock: Lock | None) -> Halted | None:
        """As its owner says; what others said before is over."""
        return self.halted.get((partition, lock.member_id)) if lock else None

    def nobody_serves(self, partition: Partition) -> bool:
        return bool(self.may_own) and self.may_own <= self.unserved.get(partition, {}).keys()


def _unserved(member: str, partition: Partition, report: Report | None) -> LiveUnserved:
    if report is None or partition not in report.unserved:
        return LiveUnserved(member=member)
    said = report.unserved[partition]
    until_ms = report.at_ms + said.left_ms
    return LiveUnserved(member=member, reason=said.reason.value, why=said.why, until_ms=until_ms)
