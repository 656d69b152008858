"""Samples of groups that rest without members, against those of what is shown."""

from typing import Any

import pytest

from assignment.wire import GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.coordinator import mirror, resting, resting_samples, sampling
from dashboard.live import groups as live_groups
from dashboard.live import watching
from dashboard.models import Group, MapStrip, Sample
from tests.dashboard.agents import FakeAgent, tick, until

TIMES = ("at_ms", "tick_age_ms")

pytestmark = pytest.mark.django_db


def still(group: Group) -> list[resting_samples.Still]:
    last = group.samples.latest("at_ms")
    return resting_samples.still([group], resting.quiet(), {group.pk: last})


def rest(group: Group) -> None:
    until(lambda: not tick())
    assert group.name in resting.quiet()


def numbers(sample: Sample) -> dict[str, Any]:
    names = [field.name for field in Sample._meta.fields if field.name not in ("id", *TIMES)]
    return {name: getattr(sample, name) for name in names}


def test_it_says_what_a_sample_of_all_that_is_shown_would_say(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    agent.start()
    tick()
    coordinator.rebalance(group.name, "task-1", "worker@here")
    agent.follow()
    assert len(agent.held) == group.partitions
    agent.leave()
    tick()
    coordinator.rebalance(group.name, "task-2", "worker@here")
    rest(group)
    sampling.sample()
    for number in range(group.partitions):
        keys = StreamKeys(group.stream)
        store.xadd(keys.entries(number), {"batch": "x"})
        store.hset(keys.producers(number), mapping={":events": 10 + number, ":entries": 1})
    [one] = still(group)
    shown = watching.snapshot(group.name, whole=True)
    found, expected = sampling._again(one), sampling._row(group, shown, one.before)
    assert found.lag_records == sum(10 + number for number in range(group.partitions))
    assert numbers(found) == numbers(expected)
    assert abs(found.at_ms - expected.at_ms) < 5_000
    assert abs((found.tick_age_ms or 0) - (expected.tick_age_ms or 0)) < 5_000


def test_a_whole_turn_keeps_sample_strip_and_mirror(group: Group, store: Any) -> None:
    rest(group)
    sampling.sample()
    first, strip = group.samples.get(), MapStrip.objects.get(group=group)
    store.xadd(StreamKeys(group.stream).entries(0), {"batch": "x"})
    assert sampling._sample([group], resting.quiet()) == {group.name: False}
    second = group.samples.latest("at_ms")
    assert second.at_ms > first.at_ms and second.lag_records == 1
    again = MapStrip.objects.get(group=group)
    assert (again.cells, again.at_ms) == (strip.cells, second.at_ms)


def test_others_are_read_as_ever(group: Group, agent: FakeAgent, store: Any) -> None:
    rest(group)
    quiet = resting.quiet()
    sampling.sample()
    assert still(group)
    last = group.samples.latest("at_ms")

    def of(**changes: Any) -> list[resting_samples.Still]:
        values = {**{f.attname: getattr(last, f.attname) for f in Sample._meta.fields}, **changes}
        return resting_samples.still([group], quiet, {group.pk: Sample(**values)})

    assert of()
    for name in ("members", "owned", "conflicts", "stalled", "paused"):
        assert not of(**{name: 1}), name
    assert not of(flapping="p 0")
    assert not of(at_ms=quiet[group.name] - 1)  # something happened since
    assert not of(at_ms=last.at_ms + 600_000)  # the clock was set back
    assert not resting_samples.still([group], {}, {group.pk: last})
    assert not resting_samples.still([group], quiet, {})
    store.hset(GroupKeys(group.name).applied, f"{group.stream}:0", "no numbers")
    assert not of()


def test_where_nobody_ticks_nothing_is_as_it_was(
    group: Group, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest(group)
    sampling.sample()
    now_ms = live_groups.redis_now_ms() + 4_000
    monkeypatch.setattr(live_groups, "redis_now_ms", lambda *_: now_ms)
    assert not still(group)


def test_groups_share_trips_of_some_hundred_partitions(group: Group) -> None:
    sizes = [200, 200, 200, 500, 1]
    groups = [Group(name=str(n), partitions=size) for n, size in enumerate(sizes)]
    parts = [[g.partitions for g in part] for part in resting_samples._parts(groups)]
    assert parts == [[200, 200], [200], [500], [1]]


def test_nothing_is_asked_of_the_database_for_a_mirror_of_nothing(
    group: Group, store: Any, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        mirror.keep_changed([(group, *live_groups.advanced([group.name]))])


def test_it_rests_on_after_a_look_that_nothing_asked_for(
    group: Group, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = GroupKeys(group.name).meta
    rest(group)
    for name in ("UNASKED_LEAST_MS", "UNASKED_MOST_MS"):
        monkeypatch.setattr(resting, name, 0)
    store.hincrby(meta, "looks_due", 1)
    assert tick() == 1
    [since_ms] = resting.quiet().values()
    assert (tick(), tick(), tick()) == (1, 1, 1), "nothing asked for these"
    assert resting.quiet() == {group.name: since_ms}
    store.hincrby(meta, "looks_due", 1)
    assert tick() == 1
    assert resting.quiet()[group.name] > since_ms
