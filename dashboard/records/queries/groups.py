"""Groups in lists: what is stored of each, and the one word for its state.

Lists are made from stored samples and records only; they never wait for Redis.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, OuterRef, QuerySet, Subquery

from dashboard.live.group_state import (
    ATTENTION,
    FLAPPING_WINDOW_MS,
    ORDER,
    Facts,
    GroupState,
    judged,
)
from dashboard.models import Group, MemberRecord, Rebalance, RebalanceOutcome, Sample

FRESH_MS = 30_000  # a sample is taken every 5 s; an older one says nothing of now
TREND_POINTS = 24
TREND_ROWS_MAX = 5_000  # of one page; a group that flaps all day must not slow the list
LAG_TREND_MS = 120_000
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRebalance:
    incarnation: int
    target_epoch: int
    at_ms: int
    cause: str
    outcome: str
    stickiness: float | None
    balance_degree: float | None
    score: float | None
    max_minus_min: int | None
    learning: int = 0  # partitions that change hands when their learners are ready


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A line of the list; what is None is not known (no fresh sample)."""

    group_id: int
    name: str
    stream: str
    partitions: int
    state: GroupState
    why: str
    members: int | None = None
    suspect: int | None = None
    owned: int | None = None
    conflicts: int | None = None
    stalled: int | None = None
    lag_records: int | None = None
    events_per_second: float | None = None
    last: LastRebalance | None = None
    recent_rebalances: int = 0
    score_trend: Sequence[float] = field(default=())
    lag_trend: Sequence[float] = field(default=())

    @property
    def coverage(self) -> float | None:
        return None if self.owned is None else self.owned / self.partitions


SORTS: dict[str, Any] = {
    "name": lambda row: row.name,
    "state": lambda row: ORDER.index(row.state),
    "members": lambda row: row.members,
    "partitions": lambda row: row.partitions,
    "coverage": lambda row: row.coverage,
    "score": lambda row: row.last and row.last.score,
    "stickiness": lambda row: row.last and row.last.stickiness,
    "rebalanced": lambda row: row.last and row.last.at_ms,
    "lag": lambda row: row.lag_records,
}


def rows(now_ms: int) -> list[GroupRow]:
    """Every group, in the order of names; trends are left out."""
    samples = _newest_samples(now_ms)
    lasts = _last_rebalances()
    recent = dict(
        Rebalance.objects.filter(at_ms__gte=now_ms - FLAPPING_WINDOW_MS)
        .values_list("group_id")
        .annotate(count=Count("id"))
        .order_by()
    )
    groups = Group.objects.values_list("id", "name", "stream", "partitions")
    return [
        _row(group, samples.get(group[0]), lasts.get(group[0]), recent.get(group[0], 0))
        for group in groups
    ]


def _newest_samples(now_ms: int) -> dict[int, Sample]:
    newest = Sample.objects.filter(group=OuterRef("pk"), at_ms__gte=now_ms - FRESH_MS)
    ids = Group.objects.values_list(
        Subquery(newest.order_by("-at_ms").values("id")[:1]), flat=True
    ).order_by()
    return {s.group_id: s for s in Sample.objects.filter(id__in=ids).order_by()}


def _last_rebalances() -> dict[int, LastRebalance]:
    newest = Rebalance.objects.filter(group=OuterRef("pk"))
    ids = Group.objects.values_list(Subquery(newest.values("id")[:1]), flat=True).order_by()
    fields = LastRebalance.__dataclass_fields__
    found = Rebalance.objects.filter(id__in=ids).order_by().values("group_id", *fields)
    return {values.pop("group_id"): LastRebalance(**values) for values in found}


def _row(
    group: tuple[int, str, str, int],
    sample: Sample | None,
    last: LastRebalance | None,
    recent: int,
) -> GroupRow:
    group_id, name, stream, partitions = group
    state, why = state_of(sample, last, recent, partitions)
    known: dict[str, Any] = {}
    if sample is not None:
        known = {
            name: getattr(sample, name)
            for name in ("members", "owned", "conflicts", "stalled", "suspect", "lag_records")
        }
        known["events_per_second"] = sample.events_per_second
    return GroupRow(
        group_id=group_id,
        name=name,
        stream=stream,
        partitions=partitions,
        state=state,
        why=why,
        last=last,
        recent_rebalances=recent,
        **known,
    )


def state_of(
    sample: Sample | None, last: LastRebalance | None, recent: int, partitions: int
) -> tuple[GroupState, str]:
    if sample is None:
        why = f"no sample for {FRESH_MS // 1000} s: is the Celery worker running?"
        return GroupState.UNKNOWN, why
    return judged(
        Facts(
            members=sample.members,
            conflicts=sample.conflicts or 0,
            unowned=partitions - sample.owned,
            stalled=sample.stalled or 0,
            lag_records=sample.lag_records,
            events_per_second=sample.events_per_second,
            recent_rebalances=recent,
            is_rebalancing=last is not None and last.outcome == RebalanceOutcome.RUNNING,
            max_minus_min=0 if last is None or last.learning else last.max_minus_min or 0,
        )
    )


def selected(found: Iterable[GroupRow], text: str, state: str, sort: str) -> list[GroupRow]:
    """Filtered and sorted; `-` before a sort turns it round, rows without the value come last."""
    chosen = [
        row
        for row in found
        if (not text or text.lower() in row.name.lower() or text.lower() in row.stream.lower())
        and (not state or row.state == state)
    ]
    value = SORTS[sort.lstrip("-")]
    known = [row for row in chosen if value(row) is not None]
    known.sort(key=value, reverse=sort.startswith("-"))
    return known + [row for row in chosen if value(row) is None]


def trends(
    group_ids: Sequence[int], now_ms: int
) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    """(scores of today's rebalances, lag of the last samples) per group, oldest first."""
    rebalanced = Rebalance.objects.filter(group__in=group_ids, at_ms__gte=now_ms - DAY_MS)
    sampled = Sample.objects.filter(group__in=group_ids, at_ms__gte=now_ms - LAG_TREND_MS)
    return _last_values(rebalanced, "score"), _last_values(sampled, "lag_records")


def _last_values(rows: QuerySet[Any], name: str) -> dict[int, list[float]]:
    found = rows.exclude(**{name: None}).order_by("-at_ms").values_list("group_id", name)
    values: defaultdict[int, list[float]] = defaultdict(list)
    for group_id, value in found[:TREND_ROWS_MAX]:
        if len(values[group_id]) < TREND_POINTS:
            values[group_id].insert(0, value)
    return values


# --- one group, and all together ------------------------------------------------------------------

GONE_SHOWN = 20


def find(name: str) -> Group | None:
    return Group.objects.filter(name=name).first()


def gone_members(group: Group) -> list[MemberRecord]:
    """Stays that ended, the latest first."""
    rows = MemberRecord.objects.filter(group=group, left_at_ms__isnull=False)
    return list(rows.order_by("-left_at_ms")[:GONE_SHOWN])


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Sums over the groups with a fresh sample; None when there is none."""

    groups: int
    states: list[tuple[GroupState, int]]
    unknown: int
    members: int | None = None
    suspect: int | None = None
    owned: int | None = None
    partitions: int | None = None
    conflicts: int | None = None
    lag_records: int | None = None
    events_per_second: float | None = None

    @property
    def coverage(self) -> float | None:
        if self.owned is None or not self.partitions:
            return None
        return self.owned / self.partitions


def summary(found: Sequence[GroupRow]) -> Summary:
    counts = Counter(row.state for row in found)
    states = [(state, counts[state]) for state in ORDER if counts[state]]
    known = [row for row in found if row.members is not None]
    sums: dict[str, Any] = {}
    if known:
        names = ("members", "suspect", "owned", "partitions", "conflicts", "lag_records")
        sums = {name: _sum(known, name) for name in (*names, "events_per_second")}
    return Summary(groups=len(found), states=states, unknown=len(found) - len(known), **sums)


def _sum(found: Sequence[GroupRow], name: str) -> Any:
    values = [getattr(row, name) for row in found]
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def attention(found: Iterable[GroupRow]) -> list[GroupRow]:
    """What somebody should look at, the worst first."""
    wanted = [row for row in found if row.state in ATTENTION]
    return sorted(wanted, key=lambda row: (ATTENTION.index(row.state), row.name))
