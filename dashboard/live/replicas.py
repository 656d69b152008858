"""Replicas of partitions' state as they are shown: who keeps or learns what, and how far it is.

Pure. Who has which replica is what the target says; how far it is what its member reports, None
where it has not yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from assignment.scripts.group_read import GroupRead
from assignment.types import Partition, ReplicaReport


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
