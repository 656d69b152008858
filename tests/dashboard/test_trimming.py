"""What goes of a stream that all its groups have read, and what is kept."""

from dataclasses import replace
from typing import Any

import pytest

from assignment.coordinator.trimming import Kept
from assignment.types import Offset, Partition
from assignment.wire import GroupKeys, StreamKeys, settings_text
from dashboard import coordinator
from dashboard.live import groups as live_groups
from dashboard.live import offsets
from dashboard.models import Group
from tests.dashboard.agents import make_group

pytestmark = pytest.mark.django_db


def test_only_what_every_reader_has_committed_is_trimmed(group: Group, store: Any) -> None:
    keys = StreamKeys(group.stream)
    for n in range(1, 1001):
        store.xadd(keys.entries(0), {"e": n}, id=f"{n}-0")
        store.xadd(keys.index(0), {"events": n, "bytes": n}, id=f"{n}-0")
    assert coordinator.trim() == 0, "nobody has committed anything"
    store.hset(GroupKeys(group.name).offsets, f"{group.stream}:0", "900-0")
    assert 0 < coordinator.trim() <= 900
    assert store.xrange(keys.entries(0), "901-0", "901-0"), "unread events are never trimmed"
    assert store.xrange(keys.index(0), "900-0", "900-0"), "counting starts from there"
    assert not store.xrange(keys.index(0), "1-0", "1-0")
    store.sadd(keys.groups, "another")
    store.hset(GroupKeys(group.name).offsets, f"{group.stream}:0", "1000-0")
    assert coordinator.trim() == 0, "another group has read nothing yet"


def test_committed_events_are_kept_for_a_time_and_a_size(group: Group, store: Any) -> None:
    """Oldest first, whole nodes of the stream; what nobody has read stays, whatever its size."""
    keys, kept_bytes = StreamKeys(group.stream), 400_000
    now_ms = live_groups.redis_now_ms()
    for n in range(1, 1001):
        at_ms = now_ms - 3_600_000 if n <= 300 else now_ms + n
        store.xadd(keys.entries(0), {"e": "x" * 1_000}, id=f"{at_ms}-{n}")
        store.xadd(keys.index(0), {"events": n, "bytes": n}, id=f"{at_ms}-{n}")
    store.hset(GroupKeys(group.name).offsets, f"{group.stream}:0", f"{now_ms + 900}-900")
    assert coordinator.trim() == 300, "those are older than ten minutes"
    assert store.xrange(keys.index(0), f"{now_ms}", "+", 1), "counting starts from there"
    group.settings |= {"events_kept_bytes": kept_bytes * group.partitions}
    group.save()
    assert 200 < coordinator.trim() < 500
    assert kept_bytes * 0.8 < store.memory_usage(keys.entries(0)) <= kept_bytes * 1.05
    group.settings |= {"events_kept_bytes": 0}
    group.save()
    coordinator.trim()
    assert 100 <= store.xlen(keys.entries(0)) <= 200, "unread events are never trimmed"
    assert store.xrange(keys.entries(0), f"{now_ms + 901}-901", f"{now_ms + 901}-901")


def test_nothing_goes_above_the_lowest_offset_that_was_set(group: Group, store: Any) -> None:
    """By whoever read committed offsets before; two groups of a stream may be set back at once."""
    keys, partition = StreamKeys(group.stream), Partition(group.stream, 0)
    for n in range(1, 1001):
        store.xadd(keys.entries(0), {"e": n}, id=f"{n}-0")
    for ms in (100, 500):
        offsets.hold(partition, Offset(ms, 0))
    read_before = {0: Offset(900, 0)}, live_groups.histories(), Kept()
    live_groups.trim_entries(group.stream, *read_before)
    assert store.xrange(keys.entries(0), "101-0", "101-0")
    store.delete(keys.hold(0))
    live_groups.trim_entries(group.stream, *read_before)
    assert not store.xrange(keys.entries(0), "101-0", "101-0")


def test_a_group_that_no_dashboard_has_keeps_events_too(group: Group, store: Any) -> None:
    keys, other = StreamKeys(group.stream), f"{group.name}-founded"
    group.settings |= {"events_kept_seconds": 0}
    group.save()
    now_ms = live_groups.redis_now_ms()
    for n in range(1, 201):
        store.xadd(keys.entries(0), {"e": n}, id=f"{now_ms - 1_000}-{n}")
    store.sadd(keys.groups, other)
    settings = replace(group.values, events_kept_seconds=60)
    store.hset(GroupKeys(other).meta, "settings", settings_text(settings))
    for name in (group.name, other):
        store.hset(GroupKeys(name).offsets, f"{group.stream}:0", f"{now_ms}-0")
    assert coordinator.trim() == 0
    store.hset(GroupKeys(other).meta, "settings", "no settings")
    assert coordinator.trim() > 0, "what it wants cannot be read, what it has committed can"


def test_a_group_that_redis_forgot_as_a_reader_keeps_its_events(group: Group, store: Any) -> None:
    keys = StreamKeys(group.stream)
    for n in range(1, 1001):
        store.xadd(keys.entries(0), {"e": n}, id=f"{n}-0")
    other = make_group(f"{group.name}-b", stream=group.stream)
    store.hset(GroupKeys(group.name).offsets, f"{group.stream}:0", "900-0")
    store.srem(keys.groups, other.name)
    assert coordinator.trim() == 0, "the other has read nothing yet"


def test_what_was_read_before_a_failover_trims_nothing(
    group: Group, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server that goes on may have less committed than the one that was asked."""
    for n in range(1, 1001):
        store.xadd(StreamKeys(group.stream).entries(0), {"e": n}, id=f"{n}-0")
    store.hset(GroupKeys(group.name).offsets, f"{group.stream}:0", "900-0")
    with monkeypatch.context() as patch:
        others = dict.fromkeys(live_groups.histories(), "of another server")
        patch.setattr(live_groups, "histories", lambda: others)
        assert coordinator.trim() == 0
    assert coordinator.trim() > 0
