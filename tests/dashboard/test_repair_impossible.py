"""`manage.py repair` of what can be read and cannot be, in Redis and in the database."""

from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from assignment.scripts.group_read import Purpose
from assignment.types import INCARNATION_STEP, Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.actions import repair
from dashboard.live import groups as live_groups
from dashboard.live import health
from dashboard.live import stored as live_stored
from dashboard.models import (
    AuditEntry,
    AuditSource,
    Group,
    MemberRecord,
    PartitionMirror,
    Rebalance,
    Tenure,
)
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.test_repair import ran

pytestmark = pytest.mark.django_db
MOST = 2**53 - 1


@pytest.fixture
def staffed(group: Group, agent: FakeAgent) -> Group:
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    coordinator.sample()
    return group


def named(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["mend"], one["key"], one["name"]) for one in found["findings"]]


def looked_at(store: Any) -> int:
    """How many groups a tick looks at that knows of none that it rests."""
    store.delete(f"{settings.REDIS_PREFIX}:rests")
    return tick()


def test_a_number_of_an_event_that_was_kept_stops_no_tick_and_is_set_right(
    staffed: Group, store: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    group = staffed
    Group.objects.filter(pk=group.pk).update(last_event_seq=MOST)
    for _ in range(3):
        assert looked_at(store) == 1
    group.refresh_from_db()
    assert group.incarnation == 1
    code, found = ran(capsys, group.name)
    assert (code, named(found)) == (1, [("correct", "history", "event_seq")])
    assert ran(capsys, group.name, "--apply")[0] == 0
    assert ran(capsys, group.name)[1]["findings"] == []
    group.refresh_from_db()
    assert group.last_event_seq == 4
    assert group.gaps.get().events_lost is None


def test_a_number_of_an_event_that_redis_did_not_reach_is_not_kept(
    staffed: Group, store: Any
) -> None:
    group = staffed
    event = {"type": "acquired", "partition": f"{group.stream}:1", "member": "z", "fence": 1}
    for seq in (5, 1_000_000, MOST):
        store.xadd(GroupKeys(group.name).events, event | {"seq": seq, "at_ms": 5})
    for _ in range(3):
        assert looked_at(store) == 1
    group.refresh_from_db()
    assert (group.last_event_seq, group.incarnation) == (4, 1)


def test_an_offset_above_all_ids_of_its_stream_is_found_in_redis_and_mirror(
    staffed: Group, store: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    group, forged = staffed, f"{2**64 - 1}-1"
    partition, keys = f"{group.stream}:0", GroupKeys(group.name)
    store.xadd(StreamKeys(group.stream).entries(0), {"e": 1}, id="5-0")
    store.hset(keys.offsets, partition, forged)
    PartitionMirror.objects.create(group=group, number=0, offset=forged, total=3)
    PartitionMirror.objects.create(group=group, number=1, offset=f"{10**20}-0", total=3)
    found = ran(capsys, group.name)[1]
    assert named(found) == [
        ("mirror", "offsets", partition),
        ("correct", "mirror", partition),
        ("correct", "mirror", f"{group.stream}:1"),
    ]
    assert found["findings"][0]["why"] == f"{forged} is above 5-0, the last id of its stream"
    assert ran(capsys, group.name, "--apply")[0] == 0
    assert ran(capsys, group.name)[1]["findings"] == []
    assert store.hget(keys.offsets, partition) == b"0-0"


def test_times_and_epochs_that_were_stored_before_are_set_right(
    staffed: Group, capsys: pytest.CaptureFixture[str]
) -> None:
    group = staffed
    Tenure.objects.filter(group=group).update(ended_ms=MOST)
    MemberRecord.objects.filter(group=group).update(joined_at_ms=-1)
    row = Rebalance.objects.get(group=group)
    Rebalance.objects.filter(pk=row.pk).update(at_ms=MOST, finished_at_ms=2 * MOST)
    row.pk, row.target_epoch = None, MOST
    row.save()
    found = ran(capsys, group.name)[1]
    assert named(found) == [
        ("correct", "epochs", str(MOST)),
        ("correct", "times", "rebalances at_ms"),
        ("correct", "times", "rebalances finished_at_ms"),
        ("correct", "times", "tenures ended_ms"),
        ("correct", "times", "member_records joined_at_ms"),
    ]
    assert ran(capsys, group.name, "--apply")[0] == 0
    assert ran(capsys, group.name)[1]["findings"] == []
    assert abs(Rebalance.objects.get(group=group).at_ms - live_groups.redis_now_ms()) < 60_000


@pytest.mark.parametrize("name", ["group_epoch", "event_seq"])
def test_a_number_to_which_nobody_counts_is_built_anew_and_counts_on(
    staffed: Group, store: Any, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    group = staffed
    store.hset(GroupKeys(group.name).meta, name, MOST)
    tick()
    assert ("rebuild", "meta", name) in named(ran(capsys, group.name)[1])
    assert ran(capsys, group.name, "--apply")[0] == 0
    assert ran(capsys, group.name)[1]["findings"] == []
    tick()
    assert health.look().failing_named == ()


def test_what_changed_since_it_was_found_is_left_alone(
    staffed: Group, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents join, beat and commit meanwhile."""
    group, keys, of = staffed, GroupKeys(staffed.name), f"{staffed.stream}:2"
    sound = store.hget(keys.members, "a")
    store.hset(keys.members, "a", "{")
    store.hset(keys.offsets, of, "far")
    store.set(keys.lock(Partition.parse(of)), "a/none")
    store.hset(keys.reports, "a", "garbage")
    read = live_stored.read

    def read_and_others_go_on(*arguments: Any) -> Any:
        found = read(*arguments)
        store.hset(keys.members, "a", sound)
        store.hset(keys.offsets, of, "5-0")
        store.set(keys.lock(Partition.parse(of)), "a/7")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(live_stored, "read", read_and_others_go_on)
        patch.setattr(coordinator, "tick", lambda: 0)
        assert len(repair.mend(group, By("ann", AuditSource.COMMAND))) == 4
    assert store.hget(keys.members, "a") == sound
    assert store.hget(keys.offsets, of) == b"5-0"
    assert store.get(keys.lock(Partition.parse(of))) == b"a/7"
    assert store.hget(keys.reports, "a") is None, "it stood as it was found"


def test_agents_that_saw_more_than_a_restored_database_are_believed_by_a_persons_word(
    staffed: Group, agent: FakeAgent, store: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Database and Redis are from a backup: until then nothing is granted above what they know."""
    group, partition = staffed, Partition(staffed.stream, 0)
    agent.held = {partition: 5_000 * INCARNATION_STEP + 1}
    agent.beat()
    for _ in range(2):
        tick()
    assert live_groups.read(group.name, Purpose.LOOK).meta.incarnation == 1
    group.refresh_from_db()
    assert any("it claims incarnation 5000" in text for _, text in group.faults)
    for arguments, said in (
        (("--incarnation", "5000"), "say --apply"),
        (("--incarnation", "1", "--apply"), "incarnation 1 is not above 1"),
        (("--incarnation", str(2**20), "--apply"), "below 1048575"),
    ):
        with pytest.raises(CommandError, match=said) as refused:
            call_command("repair", group.name, *arguments)
        assert refused.value.returncode == 3
    assert ran(capsys, group.name, "--apply", "--incarnation", "5000")[0] == 0
    assert live_groups.read(group.name, Purpose.LOOK).meta.incarnation == 5_001
    assert ran(capsys, group.name)[1]["findings"] == []
    group.refresh_from_db()
    assert (group.incarnation, group.faults) == (5_001, [])
    assert AuditEntry.objects.get(action="accept incarnation", result="done").before == {
        "incarnation": 1
    }
