"""Who owned what, when: answers from the tenures that the locks' events were turned into.

A tenure is [started_ms, ended_ms). Where events were lost the answer says so instead of guessing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from assignment.errors import InvalidInput
from assignment.types import Partition
from dashboard.models import Group, Tenure


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerAt:
    """`tenures` has the holder of the lock: none, one, or several where tenures overlap."""

    partition: Partition
    at_ms: int
    tenures: tuple[Tenure, ...]
    doubtful: bool  # events of the locks were lost later than the answer's own start

    @property
    def owner(self) -> str | None:
        return self.tenures[-1].member_id if self.tenures else None


def partition_of(group: Group, text: str) -> Partition:
    """From `17` or `stream:17`. Raises InvalidInput when the group has no such partition."""
    partition = Partition(group.stream, int(text)) if text.isdecimal() else Partition.parse(text)
    if partition.stream != group.stream or not 0 <= partition.number < group.partitions:
        raise InvalidInput(
            f"partition {text!r} is not of group {group.name!r}: it has {group.stream}:0 to"
            f" {group.stream}:{group.partitions - 1}"
        )
    return partition


def owner_at(group: Group, partition: Partition, at_ms: int) -> OwnerAt:
    rows = tuple(_at(group, at_ms).filter(number=partition.number).order_by("fence"))
    since_ms = rows[0].started_ms if rows else _last_end(group, partition, at_ms)
    gaps = group.gaps.filter(at_ms__gt=since_ms)
    return OwnerAt(partition=partition, at_ms=at_ms, tenures=rows, doubtful=gaps.exists())


def map_at(group: Group, at_ms: int) -> Mapping[int, Tenure]:
    """Partition number -> the tenure at that moment; numbers without an owner are absent."""
    return {row.number: row for row in _at(group, at_ms).order_by("number", "fence")}


def _at(group: Group, at_ms: int) -> QuerySet[Tenure]:
    rows = Tenure.objects.filter(group=group, started_ms__lte=at_ms)
    return rows.filter(Q(ended_ms=None) | Q(ended_ms__gt=at_ms))


def _last_end(group: Group, partition: Partition, at_ms: int) -> int:
    """The end of the tenure before that moment; 0 without one."""
    rows = Tenure.objects.filter(group=group, number=partition.number, ended_ms__lte=at_ms)
    return rows.order_by("-ended_ms").values_list("ended_ms", flat=True).first() or 0
