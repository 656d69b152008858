"""Who owned what, when: intervals as the locks saw them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from assignment.types import Partition
from dashboard.models import Group, HistoryGap, Tenure
from dashboard.records.queries import known, ownership
from dashboard.records.queries.pages import Filters, narrowed

DAY_MS = 86_400_000
MOVES_ROWS_MAX = 200_000  # of a day, looked through for the map's overlay
SHOWN_MAX = 500  # partitions of a moment in one table
BEFORE = 3  # of a partition that began before a time: the one that goes on, and two it may overlap


def found(group: Group, filters: Filters) -> QuerySet[Tenure]:
    """Tenures that touch the time asked for; newest first."""
    number = filters.only_partition
    of_one = {} if number is None else {"started_ms__gte": _since(group, number, filters.from_ms)}
    return narrowed(
        not_ended_by(group, filters.from_ms).order_by("-id"),
        member_id=filters.member,
        number=number,
        number__gte=filters.first if number is None else None,
        number__lte=filters.last if number is None else None,
        started_ms__lt=filters.to_ms,
        id__lt=filters.before,
        **of_one,
    )


def _since(group: Group, number: int, from_ms: int | None) -> int:
    """When the first began of those of a partition that may reach that time: what was before is not
    looked through. 0 where none was before, for only with a start its index is looked up by, and
    not all of the group's newest tenures for the partition's.
    """
    if from_ms is None:
        return 0
    rows = group.tenures.filter(number=number, started_ms__lt=from_ms).order_by("-started_ms")
    return rows.values_list("started_ms", flat=True)[BEFORE - 1 : BEFORE].first() or 0


def not_ended_by(group: Group, from_ms: int | None) -> QuerySet[Tenure]:
    """With None all."""
    rows = group.tenures.all()
    return rows if from_ms is None else rows.filter(Q(ended_ms=None) | Q(ended_ms__gte=from_ms))


def at_moment(group: Group, at_ms: int, number: int | None = None) -> list[Tenure]:
    """Whoever held the lock at that moment; two rows for a partition would be an overlap. Without a
    partition those of the first SHOWN_MAX that were held.
    """
    numbers = _held(group, at_ms) if number is None else [number]
    rows = ownership.holding(group, at_ms).filter(number__in=numbers)
    return list(rows.order_by("number", "fence"))


def around(group: Group, at_ms: int, number: int) -> tuple[Tenure | None, Tenure | None]:
    """Of a moment at which nobody had it: the last that began before, the first after."""
    rows = group.tenures.filter(number=number)
    before = rows.filter(started_ms__lte=at_ms).order_by("-started_ms", "-fence")
    return before.first(), rows.filter(started_ms__gt=at_ms).order_by("started_ms").first()


def _held(group: Group, at_ms: int) -> list[int]:
    found: list[int] = ownership.at(group, at_ms).held()[:SHOWN_MAX].tolist()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerAt:
    """`tenures` has the holder of the lock: none, one, or several where tenures overlap."""

    partition: Partition
    at_ms: int
    tenures: Sequence[Tenure]
    doubtful: bool  # events of the locks were lost later than the answer's own start

    @property
    def owner(self) -> str | None:
        return self.tenures[-1].member_id if self.tenures else None


def owner_at(group: Group, partition: Partition, at_ms: int) -> OwnerAt:
    """Raises known.NotKept."""
    known.check_kept(group, at_ms)
    rows = at_moment(group, at_ms, partition.number)
    since_ms = rows[0].started_ms if rows else _last_end(group, partition, at_ms)
    lost = group.gaps.filter(at_ms__gt=since_ms).exclude(events_lost=0).exists()
    return OwnerAt(partition=partition, at_ms=at_ms, tenures=rows, doubtful=lost)


def _last_end(group: Group, partition: Partition, at_ms: int) -> int:
    """The end of the tenure before that moment; 0 without one."""
    rows = group.tenures.filter(number=partition.number, ended_ms__lte=at_ms)
    return rows.order_by("-ended_ms").values_list("ended_ms", flat=True).first() or 0


def gaps(group: Group, from_ms: int = 0) -> list[HistoryGap]:
    """Where events or records of rebalances were lost before they could be stored."""
    return list(HistoryGap.objects.filter(group=group, at_ms__gte=from_ms)[:100])


def before_now(
    group: Group, owners: Mapping[int, str | None], at_ms: int | None = None
) -> dict[int, str]:
    """Partition -> the owner before the present one (`owners`), of the few last tenures; with a
    moment as it was then.
    """
    newest = Window(RowNumber(), partition_by=F("number"), order_by=F("fence").desc())
    rows = (
        narrowed(Tenure.objects.filter(group=group), started_ms__lte=at_ms)
        .filter(number__in=list(owners))
        .annotate(age=newest)
        .filter(age__lte=3)
        .order_by("number", "-fence")
        .values_list("number", "member_id")
    )
    result: dict[int, str] = {}
    for number, member_id in rows:
        if member_id != owners[number]:
            result.setdefault(number, member_id)
    return result


def moves(group: Group, now_ms: int, numbers: Sequence[int] | None = None) -> dict[int, int]:
    """Partition -> how often it went from one member to another within 24 h; 0 is left out."""
    rows = not_ended_by(group, now_ms - DAY_MS).filter(started_ms__lte=now_ms)
    if numbers is not None:
        rows = rows.filter(number__in=numbers)
    result: dict[int, int] = {}
    last: tuple[int, str] | None = None
    ordered = rows.order_by("number", "fence").values_list("number", "member_id")
    for number, member_id in ordered[:MOVES_ROWS_MAX]:
        if last is not None and last[0] == number and last[1] != member_id:
            result[number] = result.get(number, 0) + 1
        last = number, member_id
    return result
