"""What members report of partitions, as it is shown: who keeps or learns which one's state and how
far it is, which stand still, which cannot be served.

Pure. Who has which replica is what the target says; how far it is what its member reports, None
where it has not yet. What a member that is gone said is gone with it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from assignment.coordinator.reading import is_leaving
from assignment.scripts.group_read import GroupRead
from assignment.scripts.reports import Report
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


class Replicas(Mapping[int, LiveReplicas]):
    """By partition number, those without any left out. Made when asked for: a page that shows 200
    rows makes 200. `handed_over`: partitions whose lock another member holds than the target's.
    """

    def __init__(
        self, read: GroupRead, partitions: range, handed_over: Iterable[tuple[Partition, str]]
    ) -> None:
        self._read, self._partitions = read, partitions
        self._stream = read.meta.settings.stream if read.meta.settings else ""
        found = {n: member for member, row in read.target.items() for n in self._own(row.learning)}
        for partition, member in handed_over:
            if _report(read, member, partition):
                found.setdefault(partition.number, member)
        self.learners: Mapping[int, str] = found

    @cached_property
    def _standbys(self) -> dict[int, list[str]]:
        standbys: dict[int, list[str]] = {}
        for member, row in sorted(self._read.target.items()):
            for number in self._own(row.standby):
                standbys.setdefault(number, []).append(member)
        return standbys

    def _own(self, partitions: Iterable[Partition]) -> list[int]:
        of = self._stream, self._partitions
        return [p.number for p in partitions if p.stream == of[0] and p.number in of[1]]

    def learner(self, number: int) -> LiveReplica | None:
        member = self.learners.get(number)
        return None if member is None else self._one(member, number)

    def _one(self, member: str, number: int) -> LiveReplica:
        return replica_of(self._read, member, Partition(self._stream, number))

    def __getitem__(self, number: int) -> LiveReplicas:
        if number not in self._standbys and number not in self.learners:
            raise KeyError(number)
        standbys = (self._one(member, number) for member in self._standbys.get(number, ()))
        return LiveReplicas(standbys=tuple(standbys), learner=self.learner(number))

    def __iter__(self) -> Iterator[int]:
        return iter(self._standbys.keys() | self.learners.keys())

    def __len__(self) -> int:
        return len(self._standbys.keys() | self.learners.keys())


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

    def halt(self, partition: Partition, owner: str | None) -> Halted | None:
        """As its owner says; what others said before is over."""
        return self.halted.get((partition, owner)) if owner else None

    def nobody_serves(self, partition: Partition) -> bool:
        return bool(self.may_own) and self.may_own <= self.unserved.get(partition, {}).keys()


def _unserved(member: str, partition: Partition, report: Report | None) -> LiveUnserved:
    if report is None or partition not in report.unserved:
        return LiveUnserved(member=member)
    said = report.unserved[partition]
    until_ms = report.at_ms + said.left_ms
    return LiveUnserved(member=member, reason=said.reason.value, why=said.why, until_ms=until_ms)
