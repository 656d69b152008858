"""What can be read but cannot be: it comes neither into the database nor to other groups."""

from typing import Any

import pytest

from assignment.types import Offset, Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.coordinator import mirror
from dashboard.live import groups as live_groups
from dashboard.live import health
from dashboard.models import Group, PartitionMirror
from tests.dashboard.agents import make_group

pytestmark = pytest.mark.django_db
LAST = 2**64 - 1
FORGED = [f"{LAST}-{LAST}", "99999999999999999999-0"]


@pytest.fixture
def two(store: Any, group_name: str) -> tuple[Group, Group]:
    """Groups that read the same stream."""
    names = (f"a-{group_name}", f"b-{group_name}")
    return tuple(make_group(name, stream=f"s-{group_name}") for name in names)  # type: ignore[return-value]


def has_lost_writes(store: Any, group: Group) -> None:
    store.hset(GroupKeys(group.name).meta, "run_id", "another/another")


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_offset_harms_neither_the_stream_nor_who_reads_it(
    two: tuple[Group, Group], store: Any, forged: str
) -> None:
    liar, other = two
    entries = StreamKeys(liar.stream).entries(0)
    store.xadd(entries, {"e": 1}, id="5-0")
    store.hset(GroupKeys(other.name).offsets, f"{liar.stream}:0", "5-0")
    store.hset(GroupKeys(liar.name).offsets, f"{liar.stream}:0", forged)
    coordinator.sample()
    assert list(PartitionMirror.objects.values_list("group", "offset")) == [(other.pk, "5-0")]
    for group in two:
        has_lost_writes(store, group)
    coordinator.tick()
    assert store.xadd(entries, {"e": 2}, id="6-0") == b"6-0"
    for _ in range(2):
        coordinator.tick()
    other.refresh_from_db()
    assert other.incarnation == 2
    assert other.name not in health.look().failing_named


@pytest.mark.parametrize("forged", FORGED)
def test_a_row_that_was_stored_before_lifts_no_stream_and_goes_with_the_next_sample(
    two: tuple[Group, Group], store: Any, forged: str
) -> None:
    liar, other = two
    PartitionMirror.objects.create(group=liar, number=0, offset=forged, total=9)
    has_lost_writes(store, other)
    for _ in range(2):
        coordinator.tick()
    other.refresh_from_db()
    assert other.incarnation == 2
    entries = StreamKeys(liar.stream).entries(0)
    assert store.xadd(entries, {"e": 1}, id="5-0") == b"5-0"
    store.hset(GroupKeys(liar.name).offsets, f"{liar.stream}:0", "5-0")
    coordinator.sample()
    assert PartitionMirror.objects.get().offset == "5-0"


def test_an_offset_above_what_the_stream_ever_gave_is_not_mirrored(
    group: Group, store: Any
) -> None:
    """Ids of the stream are not used up by what a member only says."""
    partition, key = Partition(group.stream, 0), GroupKeys(group.name).offsets
    entries = StreamKeys(group.stream).entries(0)
    assert live_groups.last_ids([partition]) == {}
    store.xadd(entries, {"e": 1}, id="5-0")
    store.xadd(entries, {"e": 1}, id="7-0")
    store.xtrim(entries, maxlen=0)
    assert live_groups.last_ids([partition]) == {partition: Offset(7, 0)}
    for told, kept in (("7-0", "7-0"), ("7-1", "7-0"), ("8-0", "7-0"), ("5-0", "7-0")):
        store.hset(key, str(partition), told)
        coordinator.sample()
        assert group.mirror.get().offset == kept, told
    group.mirror.update(offset=f"{LAST}-0")
    assert mirror.offset_of(group.mirror.get().offset) is None
