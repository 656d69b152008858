"""What is read of groups in which nobody is, against what is shown of them."""

import json
from typing import Any

import pytest

from assignment.types import Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.coordinator import mirror, resting, sampling, strips
from dashboard.live import empty as live_empty
from dashboard.live import watching
from dashboard.live.advance import advanced
from dashboard.live.empty import Empty
from dashboard.live.reading import Stream
from dashboard.models import Group, MapStrip, Sample
from tests.dashboard.agents import FakeAgent, tick, until

TIMES = ("at_ms", "tick_age_ms")

pytestmark = pytest.mark.django_db


def empty(*groups: Group) -> dict[str, Empty]:
    return live_empty.empty({g.name: Stream(g.stream, g.partitions) for g in groups})


def numbers(sample: Sample) -> dict[str, Any]:
    names = [field.name for field in Sample._meta.fields if field.name not in ("id", *TIMES)]
    return {name: getattr(sample, name) for name in names}


def fill(group: Group, store: Any) -> None:
    """Ten events in the first partition's stream, eleven in the next ..."""
    for number in range(group.partitions):
        keys = StreamKeys(group.stream)
        store.xadd(keys.entries(number), {"batch": "x"})
        store.hset(keys.producers(number), mapping={":events": 10 + number, ":entries": 1})


def test_it_says_what_a_sample_of_all_that_is_shown_says(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    agent.start()
    tick()
    coordinator.rebalance(group.name, "task-1", "worker@here")
    agent.follow()
    assert len(agent.held) == group.partitions
    assert not empty(group)
    agent.leave()
    until(lambda: (tick(), empty(group))[1])
    fill(group, store)
    [one] = empty(group).values()
    shown = watching.snapshot(group.name, whole=True)
    found, expected = sampling._row_of_empty(group, one, None), sampling._row(group, shown, None)
    assert found.lag_records == sum(10 + number for number in range(group.partitions))
    assert numbers(found) == numbers(expected)
    assert abs(found.at_ms - expected.at_ms) < 5_000
    assert abs((found.tick_age_ms or 0) - (expected.tick_age_ms or 0)) < 5_000
    [strip], [as_shown] = strips.of_empty([(group, one.at_ms)]), strips.of([(group, shown)])
    assert strip.cells == as_shown.cells


def test_who_has_committed_lags_by_what_came_since(group: Group, store: Any) -> None:
    fill(group, store)
    keys, stream = GroupKeys(group.name), StreamKeys(group.stream)
    last = store.xinfo_stream(stream.entries(0))["last-generated-id"].decode()
    first = str(Partition(group.stream, 0))
    store.hset(keys.offsets, first, last)
    store.hset(keys.applied, first, "10 1000")
    [one] = empty(group).values()
    shown = watching.snapshot(group.name, whole=True).numbers
    assert (one.lag_records, one.applied_total) == (shown.lag_records, shown.applied_total)
    assert one.applied_total == 10


def test_a_whole_turn_keeps_sample_strip_and_mirror(
    group: Group, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(group, store)
    tick()
    monkeypatch.setattr(watching, "snapshot", None)  # nothing is read whole
    assert sampling.sample() == 1
    first = group.samples.get()
    assert first.lag_records == 46 and first.members == first.owned == 0
    strip = MapStrip.objects.get(group=group)
    assert (strip.cells, strip.at_ms) == ("." * group.partitions, first.at_ms)
    assert sampling.sample() == 1
    assert group.samples.latest("at_ms").events_per_second == 0


@pytest.mark.parametrize("key", ["members", "target", "reports", "pauses"])
def test_who_has_anything_is_not_empty(group: Group, store: Any, key: str) -> None:
    assert empty(group)
    store.hset(getattr(GroupKeys(group.name), key), "x", "y")
    assert not empty(group)


def test_a_lock_a_flapping_word_or_damage_is_read_as_ever(group: Group, store: Any) -> None:
    keys, first = GroupKeys(group.name), str(Partition(group.stream, 0))
    store.set(keys.lock(first), "somebody")
    assert not empty(group)
    store.delete(keys.lock(first))
    store.hset(keys.meta, "flapping", "p 0")
    assert not empty(group)
    store.hdel(keys.meta, "flapping")
    store.hset(keys.applied, first, "no numbers")
    assert not empty(group)
    store.delete(keys.applied)
    assert empty(group)
    store.hset(keys.meta, "tick_ms", "soon")
    assert not empty(group)
    store.hdel(keys.meta, "tick_ms")
    for key in (keys.reports, keys.offsets):
        store.set(key, "no hash")
        assert not empty(group)
        store.delete(key)
    store.hset(keys.offsets, b"\xff", "of no partition")
    assert empty(group)
    before = store.hgetall(keys.meta)
    others = json.dumps(json.loads(before[b"settings"]) | {"partitions": 5})
    for bad in ({"incarnation": 2**40}, {"settings": "{"}, {"settings": others}):
        store.hset(keys.meta, mapping=bad)
        assert not empty(group), bad
        store.hset(keys.meta, mapping=before)
    assert empty(group)
    store.delete(keys.meta)
    assert not empty(group), "it is not there"


def test_groups_share_trips_of_some_hundred_partitions() -> None:
    sizes = [200, 200, 200, 500, 1, 501]
    found = live_empty._parts({str(n): Stream("s", size) for n, size in enumerate(sizes)})
    assert [*found] == [["0", "1"], ["2"], ["3"], ["4"]]


def test_nothing_is_asked_of_the_database_for_a_mirror_of_nothing(
    group: Group, store: Any, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        mirror.keep_changed([(group, advanced([group.name])[group.name])])


def test_a_group_rests_on_after_a_look_that_nothing_asked_for(
    group: Group, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = GroupKeys(group.name).meta
    until(lambda: not tick())
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
