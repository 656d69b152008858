"""What /metrics tells: each family's name, meaning and labels, and its values from what is stored
and from what this process has counted. Nothing in here waits for Redis.

Labels are a group and words of closed sets: no series is of a member or of a partition, and those
of a group go with it. What is not known has no series, and is never 0.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from dashboard.api.health import audit_trouble
from dashboard.live.attention import WORDS
from dashboard.live.snapshot import MEMBER_STATES
from dashboard.models import Group, Rebalance, RebalanceOutcome, Sample
from dashboard.records.queries import attention
from dashboard.records.queries import groups as group_queries
from dashboard.records.queries.groups import Stored
from dashboard.records.queries.rebalances import PHASES
from dashboard.records.queries.totals import Kind, Sums, totals
from dashboard.web.counts import counts

GROUPS_MAX = 1_000  # some 75 series each; beyond, the answer would hold up the process for long
MOVES = ("needed", "avoidable", "unjudged")

Value = Callable[[Stored], float | None]


def of_sample(name: str, divisor: float = 1) -> Value:
    return lambda of: _divided(of.fresh, name, divisor)


def of_last(name: str, divisor: float = 1) -> Value:
    return lambda of: _divided(of.last, name, divisor)


def _divided(row: Sample | Rebalance | None, name: str, divisor: float) -> float | None:
    value = getattr(row, name, None)
    return None if value is None else value / divisor


def _unowned(of: Stored) -> float | None:
    return None if of.fresh is None else of.group.partitions - of.fresh.owned


def _coverage(of: Stored) -> float | None:
    return None if of.fresh is None else of.fresh.owned / of.group.partitions


def _ticked_s(of: Stored) -> float | None:
    if of.sample is None or of.sample.tick_age_ms is None:
        return None
    return (of.sample.at_ms - of.sample.tick_age_ms) / 1000


def _is_running(of: Stored) -> float | None:
    return None if of.last is None else of.last.outcome == RebalanceOutcome.RUNNING


GAUGES: tuple[tuple[str, str, Value], ...] = (
    ("partitions", "Partitions of the group", lambda of: of.group.partitions),
    ("owned_partitions", "Partitions with a live lock", of_sample("owned")),
    ("unowned_partitions", "Partitions without a live lock", _unowned),
    ("conflicting_partitions", "Partitions that two members claim", of_sample("conflicts")),
    ("coverage_ratio", "Share of the partitions that are owned", _coverage),
    ("paused_partitions", "Partitions that people paused", of_sample("paused")),
    ("stalled_members", "Members that make no progress", of_sample("stalled")),
    ("lag_records", "Events appended and not yet committed", of_sample("lag_records")),
    ("group_epoch", "Epoch of the group, within its incarnation", of_sample("group_epoch")),
    ("target_epoch", "Epoch of the last target", of_last("target_epoch")),
    ("incarnation", "Rises when Redis may have lost writes", lambda of: of.group.incarnation),
    ("last_tick_timestamp_seconds", "When the coordinator ticked over the group last", _ticked_s),
    (
        "last_rebalance_timestamp_seconds",
        "When the last target was made",
        of_last("at_ms", 1000),
    ),
    ("rebalance_running", "1 while the last target is being taken up", _is_running),
    (
        "balance_degree_partitions",
        "Standard deviation of partitions per member in the last target",
        of_last("balance_degree"),
    ),
    (
        "balance_spread_partitions",
        "Most minus fewest partitions of a member in the last target",
        of_last("max_minus_min"),
    ),
    ("balance_score_ratio", "Score of the last target, 1 = even", of_last("score", 100)),
    ("stickiness_ratio", "Share of partitions that the last target left", of_last("stickiness")),
    (
        "learning_partitions",
        "Partitions of the last target that change hands when their learners are ready",
        of_last("learning"),
    ),
)


class Exposition:
    """A collector of prometheus_client, of one moment."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def collect(self) -> Iterator[Metric]:
        """Raises DatabaseError."""
        groups = list(Group.objects.defer("settings", "faults"))
        shown = groups[:GROUPS_MAX]
        yield _gauge("groups", "Groups that there are", [((), len(groups))])
        left_out = "Groups beyond the most that are told of, by name"
        yield _gauge("groups_left_out", left_out, [((), len(groups) - len(shown))])
        sound = "1 when triggers and anchors of the audit are as they should be, as /readyz says"
        yield _gauge("audit_chain_ok", sound, [((), not audit_trouble())])
        yield from _of_now(group_queries.stored(shown, self._now_ms))
        yield from _of_attention(shown)
        found = totals.read({group.pk for group in groups}, self._now_ms)
        names = {group.pk: group.name for group in shown}
        yield from _of_rebalances(
            {kind: sums for kind, sums in found.items() if kind.group_id in names}, names
        )
        counts.keep({group.name for group in groups})
        yield from _of_process({group.name for group in shown} | {""})


Kinds = type[GaugeMetricFamily] | type[CounterMetricFamily]
Samples = Sequence[tuple[tuple[str, ...], float]]  # labels' values; the value


def _gauge(name: str, meaning: str, samples: Samples, *labels: str) -> Metric:
    return _family(GaugeMetricFamily, name, meaning, samples, labels)


def _counter(name: str, meaning: str, samples: Samples, *labels: str) -> Metric:
    return _family(CounterMetricFamily, name, meaning, samples, labels)


def _family(
    kind: Kinds, name: str, meaning: str, samples: Samples, labels: Sequence[str]
) -> Metric:
    made = kind(f"evenkeel_{name}", meaning, labels=labels)
    for values, value in samples:
        made.add_metric(values, value)
    return made


def _of_now(found: Sequence[Stored]) -> Iterator[Metric]:
    for name, meaning, value in GAUGES:
        known = [((of.group.name,), v) for of in found if (v := value(of)) is not None]
        yield _gauge(name, meaning, known, "group")
    states = [
        ((of.group.name, state), of.fresh.member_states.get(state, 0))
        for of in found
        if of.fresh is not None and of.fresh.member_states is not None
        for state in MEMBER_STATES
    ]
    yield _gauge("members", "Members by state", states, "group", "state")
    applied = [
        ((of.group.name,), of.fresh.applied_total)
        for of in found
        if of.fresh is not None and of.fresh.applied_total is not None
    ]
    yield _counter("applied_records", "Events whose effects are committed", applied, "group")
    missed = [((of.group.name,), of.group.missed_looks) for of in found]
    meaning = "Looks at the group that found something to do which nothing had told; a bug"
    yield _counter("missed_looks", meaning, missed, "group")


def _of_attention(groups: Sequence[Group]) -> Iterator[Metric]:
    """Of every rule, also where it does not hold: an alert may then say that it is over."""
    found = attention.by_group(groups)
    known = [(group, word, found.get((group.pk, word))) for group in groups for word in WORDS]
    needed = [((g.name, word), row is not None) for g, word, row in known]
    meaning = "1 while something needs attention, by the limits of the group"
    yield _gauge("attention", meaning, needed, "group", "rule")
    noted = [((g.name, word), bool(row and row.is_acknowledged)) for g, word, row in known]
    meaning = "1 while somebody has acknowledged what needs attention"
    yield _gauge("attention_acknowledged", meaning, noted, "group", "rule")


def _of_rebalances(found: dict[Kind, Sums], names: dict[int, str]) -> Iterator[Metric]:
    rounds = [((names[k.group_id], k.cause, k.outcome), s["rounds"]) for k, s in found.items()]
    meaning = "Targets that were taken up (done) or replaced before (superseded), by first cause"
    yield _counter("rebalance_rounds", meaning, rounds, "group", "cause", "outcome")
    by_cause = Counter[tuple[str, str]]()
    for kind, sums in found.items():
        by_cause[names[kind.group_id], kind.cause] += sums["rebalances"]
    begun = [(labels, count) for labels, count in by_cause.items() if count]
    meaning = "Rebalances, each with all its rounds, by first cause; once the first round ended"
    yield _counter("rebalances", meaning, begun, "group", "cause")
    of_group = {pk: Sums() for pk in names}
    for kind, sums in found.items():
        of_group[kind.group_id].update(sums)
    moves = [((names[pk], kind), sums[kind]) for pk, sums in of_group.items() for kind in MOVES]
    meaning = "Partitions that targets gave to another member; unjudged: nobody knows the fewest"
    yield _counter("partition_moves", meaning, moves, "group", "kind")
    gaps = [((names[pk],), sums["gap_ms"] / 1000) for pk, sums in of_group.items()]
    meaning = "Time without an owner in rebalances, summed over partitions"
    yield _counter("ownership_gap_partition_seconds", meaning, gaps, "group")
    yield from _durations(of_group, names)


def _durations(of_group: dict[int, Sums], names: dict[int, str]) -> Iterator[Metric]:
    whole = "From the change until the last partition of a target was acquired"
    total = SummaryMetricFamily("evenkeel_rebalance_duration_seconds", whole, labels=["group"])
    parted = "Parts of the duration of rebalances"
    by_phase = SummaryMetricFamily(
        "evenkeel_rebalance_phase_seconds", parted, labels=["group", "phase"]
    )
    for pk, sums in of_group.items():
        total.add_metric([names[pk]], sums["total_known"], sums["total_ms"] / 1000)
        for phase in PHASES:
            count, sum_ms = sums[f"{phase}_known"], sums[f"{phase}_ms"]
            by_phase.add_metric([names[pk], phase], count, sum_ms / 1000)
    yield from (total, by_phase)


def _of_process(shown: set[str]) -> Iterator[Metric]:
    """Tuples of the items are taken at once: the event loop goes on counting."""
    beats = [(name, n) for name, n in tuple(counts.heartbeats.items()) if name[0] in shown]
    meaning = "Heartbeats that this process answered; without a valid token: of no group"
    yield _counter("heartbeats", meaning, beats, "group", "result")
    sockets = [((g,), n) for g, n in tuple(counts.sockets.items()) if g in shown]
    yield _gauge("sockets", "Browsers' sockets that are open at this process", sockets, "group")
    frames = [((g,), n) for g, n in tuple(counts.frames.items()) if g in shown]
    yield _counter("frames", "Frames that this process gave to browsers", frames, "group")
    resyncs = [(name, n) for name, n in tuple(counts.resyncs.items()) if name[0] in shown]
    meaning = "Browsers that were told to fetch a snapshot instead of changes"
    yield _counter("resyncs", meaning, resyncs, "group", "reason")
    wrong = [((g,), n) for g, n in tuple(counts.differences.items()) if g in shown]
    meaning = "Locks that were not what their log says, as this process read them; a bug"
    yield _counter("lock_differences", meaning, wrong, "group")
