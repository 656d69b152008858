"""A Redis that came back from an older backup: what it is moved forward to, and what stays."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from assignment.scripts.agent_side import SnapshotRecord, record_values, snapshot
from assignment.scripts.group_read import Purpose
from assignment.types import Offset, Partition
from assignment.wire import MANIFEST, GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.live import groups as live_groups
from dashboard.live.connection import sync_client
from dashboard.live.scripts import run
from dashboard.models import Group, PartitionMirror
from dashboard.records.audit import losses
from tests.dashboard.agents import FakeAgent, make_group, tick
from tests.dashboard.conftest import Point

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def snapshots_lie_here(settings: Settings, tmp_path: Path) -> None:
    settings.SNAPSHOT_URLS = [str(tmp_path)]


def a_backup_of(
    group: Group, redis: EmbeddedRedis, agent: FakeAgent, newer: SnapshotRecord
) -> Partition:
    """Redis had `newer` recorded and 9-0 committed; then it came back from before that, at 5-0."""
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    partition = Partition(group.stream, 1)
    offsets, applied = GroupKeys(group.name).offsets, GroupKeys(group.name).applied
    live_groups.lift_streams({partition: Offset(9, 0)}, {})  # the stream has given so many ids
    sync_client().hset(offsets, str(partition), "9-0")
    sync_client().hset(applied, str(partition), "50 1000")
    newer = replace(newer, fence=agent.held[partition])
    sync_client().xadd(GroupKeys(group.name).changelog(partition), {"a": "commit"}, id="3-0")
    run(snapshot(partition, newer, trim=False), group.name)
    coordinator.sample()
    sync_client().hset(offsets, str(partition), "5-0")
    sync_client().hset(applied, str(partition), "30 1000")
    sync_client().hdel(GroupKeys(group.name).snapshots, str(partition))
    coordinator.sample()
    redis.stop()
    redis.start()
    return partition


def folder_of(group: Group, of: Path) -> Path:
    """Where agents write the snapshots of that partition."""
    folder = of / group.name / f"{group.stream}:1"
    folder.mkdir(parents=True)
    return folder


def snapshot_at(ms: int, url: str = "s3://x") -> SnapshotRecord:
    return SnapshotRecord(url=url, offset=Offset(ms, 0), changelog_id="3-0", total=ms * 5, fence=7)


def test_a_redis_from_a_backup_is_moved_forward_before_it_grants_anything(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str
) -> None:
    """To the whole newer snapshot; the mirror of it does not go back with Redis."""
    point_at(own_redis.url)
    group = make_group(group_name)
    partition = a_backup_of(group, own_redis, FakeAgent(group, "a"), snapshot_at(7))
    mirror = PartitionMirror.objects.get()
    assert (mirror.offset, mirror.total, mirror.snapshot[0]["offset"]) == ("9-0", 50, "7-0")
    tick()
    read = live_groups.read(group.name, Purpose.LOOK)
    assert (read.meta.incarnation, read.grants_are_possible) == (2, True)
    assert (read.offsets[partition], read.applied[partition].total) == (Offset(7, 0), 35)
    assert [(r.url, r.fence >> 32) for r in read.snapshots[partition]] == [("s3://x", 1)]
    said = losses(group).get()
    assert said.before == {str(partition): {"offset": "9-0", "total": 50}}
    unknown = {"offset": "7-0", "total": 0, "destroyed": None}
    assert said.after["partitions"] == {str(partition): unknown}, "its events were not counted"
    assert said.result == "1 of 4 partitions put back; unknown how many events destroyed"
    coordinator.sample()
    assert PartitionMirror.objects.get().snapshot[0]["offset"] == "7-0"


def test_an_offset_that_was_set_back_stays_there_when_redis_is_started_anew(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str
) -> None:
    """The next fence was granted by a Redis that had the snapshot's commits; nothing was lost."""
    point_at(own_redis.url)
    group = make_group(group_name)
    partition = a_backup_of(group, own_redis, FakeAgent(group, "a"), snapshot_at(7))
    grants, number = GroupKeys(group.name).grants, str(partition)
    fence, *rest = sync_client().hget(grants, number).decode().split(" ")
    sync_client().hset(grants, number, " ".join([str(int(fence) + 1), *rest]))
    tick()
    read = live_groups.read(group.name, Purpose.LOOK)
    assert (read.meta.incarnation, read.offsets[partition]) == (2, Offset(5, 0))


@pytest.mark.parametrize("numbers", [(36, 0, 14), (33, 2, 15), (51, 0, 0)])
def test_lost_writes_are_said_with_the_events_that_are_known_to_be_gone(
    numbers: tuple[int, int, int], point_at: Point, own_redis: EmbeddedRedis, group_name: str
) -> None:
    """50 were applied, 35 are in the snapshot; those that the stream still has are applied anew.

    Said once: of a second restart nothing more is known.
    """
    there, total, destroyed = numbers
    point_at(own_redis.url)
    group = make_group(group_name)
    partition = a_backup_of(group, own_redis, FakeAgent(group, "a"), snapshot_at(7))
    counted = {":events": there, ":entries": 0}
    sync_client().hset(StreamKeys(group.stream).producers(1), mapping=counted)
    tick()
    said = losses(group).get()
    gone = {"offset": "7-0", "total": total, "destroyed": destroyed}
    assert said.action == "writes lost" and said.actor == "evenkeel"
    assert said.after["destroyed"] == destroyed
    assert said.after["partitions"] == {str(partition): gone}
    own_redis.stop()
    own_redis.start()
    tick()
    again = losses(group)[0]
    assert (again.after["destroyed"], again.result) == (0, "nothing is known to be gone")
    tick()
    assert losses(group).count() == 2


def test_a_redis_that_is_new_has_lost_nothing(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str
) -> None:
    point_at(own_redis.url)
    group = make_group(group_name)
    FakeAgent(group, "a").start()
    tick()
    assert live_groups.read(group.name, Purpose.LOOK).meta.incarnation == 1
    assert not losses(group).exists()


def test_what_happens_at_the_locks_by_a_clock_that_is_behind_is_in_history(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str
) -> None:
    """Its events' ids would be below the last one that was stored."""
    point_at(own_redis.url)
    group = make_group(group_name)
    agent = FakeAgent(group, "a")
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    Group.objects.filter(pk=group.pk).update(events_cursor="9999999999999-0")
    own_redis.stop()
    own_redis.start()
    tick()
    agent.held.clear()
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    assert all(group.tenures.filter(fence=fence).exists() for fence in agent.held.values())
    assert agent.held


def test_a_newer_snapshot_is_found_by_the_manifest_beside_the_files(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str, tmp_path: Path
) -> None:
    point_at(own_redis.url)
    group = make_group(group_name)
    folder = folder_of(group, tmp_path)
    newest, older = folder / "newest", folder / "older"
    newest.touch()
    older.touch()
    values = record_values(replace(snapshot_at(8, str(newest)), fence=2**32 * 3 + 1))
    (folder / MANIFEST).write_text(json.dumps([values]))
    agent = FakeAgent(group, "a")
    partition = a_backup_of(group, own_redis, agent, snapshot_at(7, str(older)))
    tick()
    read = live_groups.read(group.name, Purpose.LOOK)
    assert read.offsets[partition] == Offset(8, 0)
    assert read.meta.incarnation == 4, "above that of the snapshot's history"


def test_redis_is_not_moved_to_a_snapshot_whose_file_is_gone(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str, tmp_path: Path
) -> None:
    """What Redis has is still whole; moved forward, nothing would lead there."""
    point_at(own_redis.url)
    group = make_group(group_name)
    gone = snapshot_at(7, str(folder_of(group, tmp_path) / "gone"))
    partition = a_backup_of(group, own_redis, FakeAgent(group, "a"), gone)
    tick()
    read = live_groups.read(group.name, Purpose.LOOK)
    assert (read.offsets[partition], read.grants_are_possible) == (Offset(5, 0), True)


@pytest.mark.parametrize("where", ["", "another/s:1", "{group}/s:2"])
def test_no_file_is_looked_for_where_the_groups_snapshots_are_not(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str, tmp_path: Path, where: str
) -> None:
    """A member may record any address: what lies there says nothing to the dashboard."""
    point_at(own_redis.url)
    group = make_group(group_name)
    folder = tmp_path / where.format(group=group_name)
    folder.mkdir(parents=True, exist_ok=True)
    values = record_values(replace(snapshot_at(8, str(folder / "x")), fence=2**32 * 3 + 1))
    (folder / MANIFEST).write_text(json.dumps([values]))
    (folder / "x").touch()
    forged = snapshot_at(7, str(folder / "x"))
    partition = a_backup_of(group, own_redis, FakeAgent(group, "a"), forged)
    tick()
    read = live_groups.read(group.name, Purpose.LOOK)
    assert (read.offsets[partition], read.meta.incarnation) == (Offset(5, 0), 2)
