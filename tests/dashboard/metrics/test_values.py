"""What /metrics tells of groups, and that their series go with them."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from dashboard.api import families
from dashboard.live.attention import WORDS
from dashboard.live.snapshot import MEMBER_STATES
from dashboard.models import Group, Occurrence, Rebalance, Sample
from dashboard.records import chain
from dashboard.records.queries.rebalances import PHASES
from dashboard.records.queries.totals import SETTLED_MS, Totals
from dashboard.web.counts import counts
from tests.dashboard.agents import make_group
from tests.dashboard.metrics.told import joined_late, samples, value
from tests.dashboard.scenes import staffed


@pytest.mark.django_db
def test_a_groups_figures_are_those_that_were_stored(served: Any, group: Group) -> None:
    found, name = served(), group.name
    last, sample = group.rebalances.first(), group.samples.last()
    assert last is not None and sample is not None
    of_group = {
        "partitions": 4,
        "owned_partitions": 4,
        "unowned_partitions": 0,
        "conflicting_partitions": 0,
        "coverage_ratio": 1,
        "stalled_members": 0,
        "lag_records": 0,
        "applied_records_total": 0,
        "group_epoch": sample.group_epoch,
        "target_epoch": last.target_epoch,
        "incarnation": 1,
        "rebalance_running": 0,
        "balance_degree_partitions": 0,
        "balance_spread_partitions": 0,
        "balance_score_ratio": 1,
        "stickiness_ratio": last.stickiness,
        "learning_partitions": 0,
        "last_rebalance_timestamp_seconds": last.at_ms / 1000,
        "sockets": 2,
        "frames_total": 2,
    }
    assert {key: value(found, key, group=name) for key in of_group} == of_group
    states = {state: value(found, "members", group=name, state=state) for state in MEMBER_STATES}
    assert states["alive"] == 2
    assert sum(states.values()) == 2  # type: ignore[arg-type]
    ticked_s = value(found, "last_tick_timestamp_seconds", group=name)
    assert ticked_s is not None and sample.at_ms / 1000 - 60 < ticked_s <= sample.at_ms / 1000
    assert value(found, "heartbeats_total", group=name, result="ok") == 1
    assert value(found, "resyncs_total", group=name, reason="slow_browser") == 1
    assert (value(found, "groups"), value(found, "groups_left_out")) == (1, 0)


@pytest.mark.django_db
def test_rebalances_are_summed_by_cause_outcome_and_phase(served: Any, group: Group) -> None:
    found, rows = served(), list(group.rebalances.all())
    ended = {(row.cause, row.outcome) for row in rows}
    assert rows and ("join", "done") in ended
    for cause, outcome in ended:
        said = {"group": group.name, "cause": cause, "outcome": outcome}
        count = value(found, "rebalance_rounds_total", **said)
        assert count == group.rebalances.filter(cause=cause, outcome=outcome).count()
    done = [row for row in rows if row.total_ms is not None]
    assert value(found, "rebalance_duration_seconds_count", group=group.name) == len(done)
    for name in ("total", *PHASES):
        family = "rebalance_duration_seconds" if name == "total" else "rebalance_phase_seconds"
        labels = {"group": group.name} | ({} if name == "total" else {"phase": name})
        sum_ms = sum(getattr(row, f"{name}_ms") or 0 for row in rows)
        assert value(found, f"{family}_sum", **labels) == pytest.approx(sum_ms / 1000)
    moves = [
        value(found, "partition_moves_total", group=group.name, kind=k) for k in families.MOVES
    ]
    assert sum(moves) == sum(row.moved for row in rows)  # type: ignore[arg-type]
    gap_ms = sum(row.ownership_gap_ms or 0 for row in rows)
    gap_s = value(found, "ownership_gap_partition_seconds_total", group=group.name)
    assert gap_s == pytest.approx(gap_ms / 1000)


@pytest.mark.django_db
def test_a_rebalance_counts_once_whatever_rounds_it_takes(served: Any, group: Group) -> None:
    before = value(served(), "rebalances_total", group=group.name, cause="join")
    assert before == group.rebalances.count() == 2
    row = group.rebalances.get(target_epoch=4)
    row.first, row.pk, row.target_epoch = group.rebalances.get(target_epoch=4), None, 5
    row.save()
    found, rounds = served(), {"group": group.name, "cause": "join", "outcome": "done"}
    assert value(found, "rebalances_total", group=group.name, cause="join") == 2
    assert value(found, "rebalance_rounds_total", **rounds) == 3


@pytest.mark.django_db
def test_an_old_sample_tells_nothing_but_how_old_it_is(served: Any, group: Group) -> None:
    before = value(served(), "last_tick_timestamp_seconds", group=group.name)
    for sample in group.samples.all():
        Sample.objects.filter(pk=sample.pk).update(at_ms=sample.at_ms - 60_000)
    found = served()
    unknown = ("owned_partitions", "unowned_partitions", "lag_records", "applied_records_total")
    assert {value(found, name, group=group.name) for name in unknown} == {None}
    assert value(found, "members", group=group.name, state="alive") is None
    assert value(found, "partitions", group=group.name) == 4
    assert before is not None
    assert value(found, "last_tick_timestamp_seconds", group=group.name) == before - 60


@pytest.mark.django_db
def test_what_needs_attention_is_told_by_rule(served: Any, group: Group) -> None:
    row = Occurrence.objects.create(
        group=group, rule="stalled", why="1 member", began_at_ms=1, seen_at_ms=2
    )

    def told() -> list[tuple[str, float | None, float | None]]:
        found = served()
        names = ("attention", "attention_acknowledged")
        return [(w, *(value(found, n, group=group.name, rule=w) for n in names)) for w in WORDS]

    assert told() == [(word, 0, 0) for word in WORDS], "it has not lasted long enough"
    Occurrence.objects.filter(pk=row.pk).update(raised_at_ms=2)
    assert told() == [(word, word == "stalled", 0) for word in WORDS]
    Occurrence.objects.filter(pk=row.pk).update(acknowledged_at_ms=3, acknowledged_by="ann")
    assert told() == [(word, word == "stalled", word == "stalled") for word in WORDS]
    Occurrence.objects.filter(pk=row.pk).update(ended_at_ms=3)
    assert told() == [(word, 0, 0) for word in WORDS]


@pytest.mark.django_db
def test_series_go_with_their_group(served: Any, group: Group) -> None:
    other = make_group(f"{group.name}-other")
    counts.heartbeat("", "unauthorized")
    assert any(sample.labels.get("group") == group.name for sample in samples(served()))
    group.delete()
    left = {sample.labels.get("group") for sample in samples(served())}
    assert left == {None, "", other.name}
    assert {name for name, _ in counts.heartbeats} == {""}


@pytest.mark.django_db
def test_groups_beyond_the_most_are_counted(
    served: Any, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_group(f"{group.name}-other")
    counts.heartbeat(other.name, "ok")
    monkeypatch.setattr(families, "GROUPS_MAX", 1)
    found = served()
    assert (value(found, "groups"), value(found, "groups_left_out")) == (2, 1)
    assert {sample.labels.get("group") for sample in samples(found)} == {None, group.name}
    monkeypatch.setattr(families, "GROUPS_MAX", 2)
    assert value(served(), "heartbeats_total", group=other.name, result="ok") == 1


@pytest.mark.django_db
def test_no_series_is_of_a_member_or_a_partition(served: Any, group: Group) -> None:
    words = {
        "state": set(MEMBER_STATES),
        "phase": set(PHASES),
        "kind": set(families.MOVES),
        "result": {"ok", "unauthorized"},
        "reason": {"slow_browser"},
        "outcome": {"done", "superseded"},
        "group": {group.name},
        "rule": set(WORDS),
        "cause": set(Rebalance.objects.values_list("cause", flat=True)),
    }
    for sample in samples(served()):
        assert all(said in words[label] for label, said in sample.labels.items()), sample
    assert len(samples(served())) < 95, "the docs say about 75 of a group"


@pytest.mark.django_db
def test_a_scrape_asks_as_much_for_many_groups_as_for_one(served: Any, group: Group) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as found:
            served()
        return len(found)

    before = asked()
    assert before < 10
    staffed(make_group(f"{group.name}-2"), "c")
    assert asked() == before


@pytest.mark.django_db
def test_redis_is_not_asked(served: Any, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert value(served(), "groups") == 1


@pytest.mark.django_db
def test_an_audit_that_is_not_the_anchored_one_is_told(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert value(served(), "audit_chain_ok") == 1
    monkeypatch.setattr(chain, "lost", lambda: "entry 7 is missing")
    assert value(served(), "audit_chain_ok") == 0


@pytest.mark.django_db
def test_settled_rebalances_are_read_once_and_none_is_lost_or_doubled(group: Group) -> None:
    joined_late(group)
    first, *rest = group.rebalances.order_by("pk")
    now_ms = rest[-1].at_ms + 2 * SETTLED_MS
    Rebalance.objects.filter(pk=first.pk).update(outcome="running", total_ms=None)
    seen, ids = Totals(), {group.pk}

    def counted(of: Totals, now_ms: int) -> dict[tuple[str, str], int]:
        found = of.read(ids, now_ms).items()
        return {(k.cause, k.outcome): s["rebalances"] for k, s in found}

    without = counted(Totals(), 0)
    assert sum(without.values()) == len(rest)
    for at_ms in (0, now_ms, now_ms):
        assert counted(seen, at_ms) == without
    Rebalance.objects.filter(pk=first.pk).update(outcome="superseded")
    Rebalance.objects.filter(pk=rest[-1].pk).update(total_ms=10**9)  # settled: not read again
    for at_ms in (now_ms, now_ms):
        assert counted(seen, at_ms) == counted(Totals(), 0) != without
    found = seen.read(ids, now_ms).values()
    assert sum(sums["total_ms"] for sums in found) < 10**9
    assert seen.read({group.pk + 1}, now_ms) == {}
