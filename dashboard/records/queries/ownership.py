"""Who owned every partition at a moment: the newest stored map before it, and what changed since.

Two queries, each of a bounded number of rows: coordinator/ownership.py stores maps often enough.
Before the first stored map the tenures themselves are asked.
"""

from collections.abc import Sequence
from typing import NamedTuple

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce

from assignment import ownership
from assignment.ownership import STILL, OwnershipMap, Row
from dashboard.models import Group, StoredMap, Tenure
from dashboard.records import bulk

STORED = f"""
SELECT at_ms, map FROM {StoredMap._meta.db_table} WHERE group_id = %(group)s AND at_ms <= %(at)s
ORDER BY at_ms DESC, id DESC LIMIT 1
"""
_ROW = f"""
SELECT number, member_id, fence, started_ms, COALESCE(ended_ms, {STILL}) AS ends
FROM {Tenure._meta.db_table} WHERE group_id = %(group)s
"""
CHANGES = f"""
{_ROW} AND started_ms BETWEEN %(from)s AND %(to)s UNION ALL
{_ROW} AND ended_ms BETWEEN %(from)s AND %(to)s AND started_ms < %(from)s
"""  # each by an index of its own


class Step(NamedTuple):
    """One change of a lock; owner None: who had it under that fence has it no more."""

    at_ms: int
    number: int
    owner: str | None
    fence: int


def at(group: Group, at_ms: int) -> OwnershipMap:
    """As `holding` says it of each partition."""
    stored = bulk.fetched(STORED, {"group": group.pk, "at": at_ms})
    if not stored:
        empty = ownership.nobody(group.partitions)
        return ownership.changed(empty, _rows(holding(group, at_ms)), at_ms)
    [(since_ms, packed)] = stored
    found = changes(group, since_ms, at_ms)
    return ownership.changed(ownership.unpack(bytes(packed)), found, at_ms)


def holding(group: Group, at_ms: int) -> QuerySet[Tenure]:
    """The tenures of that moment, in no order: [started, ended) as the locks saw them."""
    rows = Tenure.objects.filter(group=group, started_ms__lte=at_ms).order_by()
    return rows.filter(Q(ended_ms=None) | Q(ended_ms__gt=at_ms))


def changes(group: Group, from_ms: int, to_ms: int) -> Sequence[Row]:
    """Tenures that began or ended from then until then, both moments among them; in no order."""
    return bulk.fetched(CHANGES, {"group": group.pk, "from": from_ms, "to": to_ms})


def steps(group: Group, from_ms: int, to_ms: int, most: int) -> list[Step]:
    """The first `most` from then until then, in the order in which the locks changed; those of one
    moment and fence by their numbers.
    """
    began, ended = _of_span(group, from_ms, to_ms)
    starts = _rows(began.order_by("started_ms", "fence", "number"))[:most]
    ends = _rows(ended.order_by("ended_ms", "fence", "number"))[:most]
    found = [
        (at_ms, fence, 0, n, Step(at_ms, n, member, fence)) for n, member, fence, at_ms, _ in starts
    ]
    found += [(at_ms, fence, 1, n, Step(at_ms, n, None, fence)) for n, _, fence, _, at_ms in ends]
    return [step for *_, step in sorted(found, key=lambda one: one[:4])[:most]]


def moments(group: Group, from_ms: int, to_ms: int, most: int) -> list[int]:
    """The first `most` from then until then at which a lock changed, ascending."""
    began, ended = _of_span(group, from_ms, to_ms)
    starts = began.order_by("started_ms").values_list("started_ms", flat=True)
    ends = ended.order_by("ended_ms").values_list("ended_ms", flat=True)
    found = {*starts.distinct()[:most], *ends.distinct()[:most]}
    return sorted(at_ms for at_ms in found if at_ms is not None)[:most]


def _of_span(group: Group, from_ms: int, to_ms: int) -> tuple[QuerySet[Tenure], QuerySet[Tenure]]:
    """Tenures that began in it, and those that ended in it; both moments are among it."""
    rows = Tenure.objects.filter(group=group)
    span = (from_ms, to_ms)
    return rows.filter(started_ms__range=span), rows.filter(ended_ms__range=span)


def _rows(found: QuerySet[Tenure]) -> QuerySet[Tenure, Row]:
    ends = Coalesce("ended_ms", Value(STILL))
    named = found.annotate(ends=ends)
    return named.values_list("number", "member_id", "fence", "started_ms", "ends")
