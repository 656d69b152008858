"""Groups in lists: what is stored of each, and the one word for its state.

Lists are made from stored samples and records only; they never wait for Redis.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery

from assignment.scripts.pausing import pauses_of
from dashboard.actions.roles import EVERYTHING, Rights
from dashboard.live import group_state
from dashboard.live.attention import Facts
from dashboard.models import Group, MemberRecord, Rebalance, RebalanceOutcome, Sample
from dashboard.pages import texts
from dashboard.records.queries.pages import narrowed
from dashboard.records.queries.rebalances import light
from dashboard.records.rights import visible

# A sample is taken every 5 s, or as often as many groups allow; an older one says nothing of now.
FRESH_MS = 40_000
QUIET_MS = 300_000  # so often where no members are, and nothing is to be done
TREND_POINTS = 24
TREND_ROWS_MAX = 5_000  # of one page; a group that flaps all day must not slow the list
LAG_TREND_MS = 120_000
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A line of the list. `sample` is None when there is no fresh one: nothing is known then."""

    group: Group
    state: group_state.GroupState
    why: str
    sample: Sample | None = None
    last: Rebalance | None = None  # the newest round
    score_trend: Sequence[float] = ()
    lag_trend: Sequence[float] = ()

    @property
    def coverage(self) -> float | None:
        return None if self.sample is None else self.sample.owned / self.group.partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What is stored of a group that its metrics tell. `sample`: the newest, however old."""

    group: Group
    sample: Sample | None
    last: Rebalance | None
    now_ms: int

    @property
    def fresh(self) -> Sample | None:
        """None: nothing is known of now."""
        one = self.sample
        return one if one is not None and is_fresh(one, self.now_ms) else None


SORTS: dict[str, Any] = {
    "name": lambda row: row.group.name,
    "state": lambda row: group_state.ORDER.index(row.state),
    "members": lambda row: row.sample and row.sample.members,
    "partitions": lambda row: row.group.partitions,
    "coverage": lambda row: row.coverage,
    "score": lambda row: row.last and row.last.score,
    "stickiness": lambda row: row.last and row.last.stickiness,
    "rebalanced": lambda row: row.last and row.last.whole.at_ms,
    "lag": lambda row: row.sample and row.sample.lag_records,
}


def rows(now_ms: int, rights: Rights = EVERYTHING) -> list[GroupRow]:
    """Every group that may be seen, in the order of names; trends are left out."""
    samples = newest(Sample.objects.filter(_fresh(now_ms)).order_by("-at_ms"))
    lasts = newest(light(Rebalance.objects.select_related("first")))
    return [_row(group, samples.get(group.pk), lasts.get(group.pk)) for group in visible(rights)]


def stored(groups: Sequence[Group], now_ms: int) -> list[Stored]:
    samples = newest(Sample.objects.order_by("-at_ms"))
    lasts = newest(light(Rebalance.objects.all()))
    return [
        Stored(group=g, sample=samples.get(g.pk), last=lasts.get(g.pk), now_ms=now_ms)
        for g in groups
    ]


def newest(found: QuerySet[Any], of: Collection[int] | None = None) -> dict[int, Any]:
    """The first of each group, in their order; `of` these groups only."""
    first = found.filter(group=OuterRef("pk")).values("id")[:1]
    groups = Group.objects.all() if of is None else Group.objects.filter(pk__in=of)
    ids = groups.values_list(Subquery(first), flat=True).order_by()
    return {row.group_id: row for row in found.filter(id__in=ids).order_by()}


def is_fresh(sample: Sample, now_ms: int) -> bool:
    """Whether it says what is now."""
    quiet_ms = 0 if sample.members else QUIET_MS
    return sample.at_ms >= now_ms - FRESH_MS - quiet_ms


def _fresh(now_ms: int) -> Q:
    """As `is_fresh`."""
    since_ms = now_ms - FRESH_MS
    return Q(at_ms__gte=since_ms) | Q(members=0, at_ms__gte=since_ms - QUIET_MS)


def _row(group: Group, sample: Sample | None, last: Rebalance | None) -> GroupRow:
    state, why = state_of(sample, last, group)
    return GroupRow(group=group, state=state, why=why, sample=sample, last=last)


def state_of(
    sample: Sample | None, last: Rebalance | None, group: Group
) -> tuple[group_state.GroupState, str]:
    if sample is None:
        why = f"no sample for {FRESH_MS // 1000} s: is the Celery worker running?"
        return group_state.GroupState.UNKNOWN, why
    return group_state.judged(facts_of(sample, last, group))


def facts_of(sample: Sample, last: Rebalance | None, group: Group) -> Facts:
    """`last`: the newest round."""
    lag, pauses = sample.lag_records, pauses_of(group.pause_version, group.pauses)
    return Facts(
        members=sample.members,
        conflicts=sample.conflicts,
        unowned=group.partitions - sample.owned,
        stalled=sample.stalled,
        lag_records=None if lag is None else lag - sample.lag_paused,
        events_per_second=sample.events_per_second,
        tick_age_ms=sample.tick_age_ms or 0,
        flapping=sample.flapping,
        is_rebalancing=last is not None and last.outcome == RebalanceOutcome.RUNNING,
        max_minus_min=0 if last is None or last.learning else last.max_minus_min or 0,
        is_paused=0 < group.partitions <= sample.paused,
        paused=sample.paused,
        pausing=sample.pausing,
        pause=texts.paused_by(pauses.group),
    )


def selected(found: Iterable[GroupRow], text: str, state: str, sort: str) -> list[GroupRow]:
    """Filtered and sorted; `-` before a sort turns it round, rows without the value come last."""
    chosen = [
        row
        for row in found
        if text.lower() in row.group.name.lower() or text.lower() in row.group.stream.lower()
        if state in ("", row.state)
    ]
    value = SORTS[sort.lstrip("-")]
    known = [row for row in chosen if value(row) is not None]
    known.sort(key=value, reverse=sort.startswith("-"))
    return known + [row for row in chosen if value(row) is None]


def trends(
    group_ids: Sequence[int], now_ms: int
) -> tuple[defaultdict[int, list[float]], defaultdict[int, list[float]]]:
    """(scores of today's rebalances, lag of the last samples) per group, oldest first."""
    rebalanced = Rebalance.objects.filter(group__in=group_ids, at_ms__gte=now_ms - DAY_MS)
    sampled = Sample.objects.filter(group__in=group_ids, at_ms__gte=now_ms - LAG_TREND_MS)
    return _last_values(rebalanced, "score"), _last_values(sampled, "lag_records")


def _last_values(rows: QuerySet[Any], name: str) -> defaultdict[int, list[float]]:
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


def members_at(group: Group, at_ms: int) -> list[MemberRecord]:
    """Stays that went on at that moment."""
    rows = MemberRecord.objects.filter(group=group, joined_at_ms__lte=at_ms)
    return list(rows.filter(Q(left_at_ms=None) | Q(left_at_ms__gt=at_ms)).order_by("member_id"))


def sample_at(group: Group, at_ms: int) -> Sample | None:
    """The newest then, unless it was old."""
    return group.samples.filter(_fresh(at_ms), at_ms__lte=at_ms).order_by("-at_ms").first()


def summary(found: Sequence[GroupRow]) -> dict[str, Any]:
    """Sums over the groups with a fresh sample; what is not known of any is None."""
    counts = Counter(row.state for row in found)
    known = [row for row in found if row.sample is not None]
    names = ("members", "suspect", "owned", "conflicts", "lag_records")
    sums = {name: _sum(getattr(row.sample, name) for row in known) for name in names}
    partitions = _sum(row.group.partitions for row in known)
    return {
        "groups": len(found),
        "states": [(state, counts[state]) for state in group_state.ORDER if counts[state]],
        "unknown": len(found) - len(known),
        "partitions": partitions,
        "coverage": sums["owned"] / partitions if partitions else None,
        **sums,
    }


def _sum(values: Iterable[int | None]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


POINTS_MAX = 720


def series(group: Group, from_ms: int, until_ms: int | None = None) -> list[Sample]:
    """A group's samples of that time, oldest first; of more than POINTS_MAX every k-th."""
    rows = narrowed(group.samples.order_by("at_ms"), at_ms__gte=from_ms, at_ms__lte=until_ms)
    count = rows.count()
    step = -(-count // POINTS_MAX)
    found = enumerate(rows.iterator(chunk_size=2_000))
    return [row for i, row in found if (count - 1 - i) % step == 0]


def existing(names: Iterable[str]) -> frozenset[str]:
    """Those of them that are groups now."""
    found = Group.objects.filter(name__in={*names}).order_by()
    return frozenset(found.values_list("name", flat=True))
