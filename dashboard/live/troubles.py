"""Which partitions stand still and which cannot be served, as members report it.

Pure. What a member that is gone said is gone with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from assignment.coordinator.reading import is_leaving
from assignment.scripts.group_read import GroupRead, Lock
from assignment.troubles import Halted, Unserved, parse_halted
from assignment.types import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveUnserved:
    """`reason`: of UnservedReason; the member tries again at `until_ms`, as far as it has said."""

    member: str
    reason: str = ""
    why: str = ""
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """`unserved`: partition -> member -> what it says of it, None where it has said no more."""

    halted: Mapping[tuple[Partition, str], Halted]
    unserved: Mapping[Partition, Mapping[str, LiveUnserved]]
    may_own: frozenset[str]

    @classmethod
    def of(cls, read: GroupRead) -> "Troubles":
        halted = {
            (one.partition, member): one
            for member, report in read.reports.items()
            for one in map(parse_halted, report.consumer.get("halted", ()))
        }
        unserved: dict[Partition, dict[str, LiveUnserved]] = {}
        for member, row in read.members.items():
            told = read.reports[member].unserved if member in read.reports else {}
            at_ms = read.reports[member].at_ms if member in read.reports else 0
            for partition in row.unserved:
                said = _unserved(member, told.get(partition), at_ms)
                unserved.setdefault(partition, {})[member] = said
        may_own = (m for m, row in read.members.items() if row.able and not is_leaving(row))
        return cls(halted=halted, unserved=unserved, may_own=frozenset(may_own))

    def halt(self, partition: Partition, lock: Lock | None) -> Halted | None:
        """As its owner says; what others said before is over."""
        return self.halted.get((partition, lock.member_id)) if lock else None

    def unserved_by(self, partition: Partition) -> tuple[LiveUnserved, ...]:
        found = self.unserved.get(partition, {})
        return tuple(found[member] for member in sorted(found))

    def nobody_serves(self, partition: Partition) -> bool:
        return bool(self.may_own) and self.may_own <= self.unserved.get(partition, {}).keys()


def _unserved(member: str, said: Unserved | None, at_ms: int) -> LiveUnserved:
    if said is None:
        return LiveUnserved(member=member)
    return LiveUnserved(
        member=member, reason=said.reason.value, why=said.why, until_ms=at_ms + said.left_ms
    )
