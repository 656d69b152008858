"""The coordinator when a database refuses, or a Redis forgets: what goes on, what is said."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from assignment.scripts.agent_side import SnapshotRecord, snapshot
from assignment.scripts.dashboard_side import set_incarnation
from assignment.scripts.group_read import Purpose
from assignment.types import Offset, Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.demo.embedded_redis import EmbeddedRedis, wheel_binary
from dashboard.live import groups as live_groups
from dashboard.live.connection import StoreUnavailable, sync_client
from dashboard.live.scripts import run
from dashboard.models import (
    AuditEntry,
    Group,
    HistoryGap,
    Rebalance,
)
from tests.dashboard.agents import FakeAgent, make_group, owners, tick, until
from tests.dashboard.conftest import Point

pytestmark = pytest.mark.django_db
FAST = {
    "lease_ms": 600,
    "renew_ms": 200,
    "heartbeat_ms": 100,
    "session_timeout_ms": 400,
    "grace_ms": 300,
}


@contextmanager
def refusing_to_write() -> Iterator[None]:
    """As a full disk, or a primary that became a replica: it answers, and takes nothing."""

    def refuse(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.lstrip().split(" ", 1)[0].upper() in ("INSERT", "UPDATE", "DELETE"):
            raise OperationalError("the database is read-only")
        return execute(sql, *rest)

    with connection.execute_wrapper(refuse):
        yield


def test_a_database_that_refuses_writes_stops_no_failover_and_misses_no_record(
    group: Group, agent: FakeAgent
) -> None:
    agent.start()
    other = FakeAgent(group, "b")
    with refusing_to_write():
        assert coordinator.rebalance(group.name).startswith("epoch 2")
        agent.follow()
        other.start()
        tick()
        assert coordinator.rebalance(group.name).startswith("epoch 4")
        agent.follow()
        other.follow()
        assert len(other.held) == 2
        assert not Rebalance.objects.exists()
    tick()
    rows = Rebalance.objects.order_by("target_epoch")
    assert [(r.target_epoch, r.cause, r.outcome) for r in rows] == [
        (2, "join", "superseded"), (4, "join", "done"),
    ]  # fmt: skip
    assert sorted(owners(group).values()) == ["a", "a", "b", "b"]
    assert not live_groups.outbox(group.name)


@pytest.mark.parametrize("outcome", ["running", "done"])
def test_a_record_that_was_stored_and_not_dropped_is_stored_once(
    group: Group, agent: FakeAgent, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.start()

    def killed(*_: Any) -> None:
        raise StoreUnavailable("killed in between")

    with monkeypatch.context() as patch, suppress(StoreUnavailable):
        patch.setattr(live_groups, "drop_from_outbox", killed)
        coordinator.rebalance(group.name)
    assert Rebalance.objects.update(outcome=outcome) == 1
    tick()
    assert Rebalance.objects.get().outcome == outcome
    assert not live_groups.outbox(group.name)


def test_records_that_no_database_takes_are_bounded_and_history_says_how_many_are_gone(
    group: Group, agent: FakeAgent, client: Any, admin_user: Any
) -> None:
    agent.start()
    keys = GroupKeys(group.name)
    maps = dict.fromkeys(("target", "previous", "replicas"))
    record = json.dumps({"requests": [], **maps}) + " " * 5_000  # a node of the stream to itself
    waits = {"incarnation": 1, "epoch": 1, "record": record}
    with refusing_to_write():
        for _ in range(1_100):
            sync_client().xadd(keys.outbox, waits)
        assert coordinator.rebalance(group.name).startswith("epoch 2")
    assert sync_client().xlen(keys.outbox) == 1_000
    assert live_groups.counted_and_lost(group.name)[1] == 101
    sync_client().xtrim(keys.outbox, maxlen=1, approximate=False)  # what was made up here
    tick()
    [gap] = HistoryGap.objects.all()
    assert (gap.records_lost, gap.events_lost, Rebalance.objects.count()) == (101, 0, 1)
    tick()
    assert HistoryGap.objects.count() == 1
    client.force_login(admin_user)
    page = client.get(f"/groups/{group.name}/history/").content.decode()
    assert "the records of 101 earlier rebalances were lost" in page


def test_a_record_teaches_the_database_the_incarnation_that_it_missed(
    group: Group, agent: FakeAgent
) -> None:
    agent.start()
    Group.objects.filter(pk=group.pk).update(incarnation=0)  # it refused when that was set
    assert coordinator.rebalance(group.name).startswith("epoch 2")
    assert Group.objects.get(pk=group.pk).incarnation > 0


def test_ticks_know_their_groups_without_a_database(store: Any, group_name: str) -> None:
    group = make_group(group_name, **FAST)
    agent = FakeAgent(group, "a")
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()

    def away(*_: Any) -> Any:
        raise OperationalError("the database is away")

    def gone() -> bool:
        tick()
        return not live_groups.read(group.name, Purpose.LOOK).members

    with connection.execute_wrapper(away):
        until(gone)
        other = FakeAgent(group, "b")
        other.start()
        assert coordinator.rebalance(group.name).startswith("epoch")
        other.follow()
        assert len(other.held) == 4
    tick()
    assert owners(group) == dict.fromkeys(range(4), "b")


def test_an_epoch_that_comes_again_after_lost_writes_is_another_record(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    agent.start()
    coordinator.rebalance(group.name)
    first = Rebalance.objects.get()
    store.hset(GroupKeys(group.name).meta, mapping={"incarnation": "2", "target_epoch": "1"})
    assert coordinator.rebalance(group.name).startswith("epoch 2")
    again = Rebalance.objects.exclude(pk=first.pk).get()
    assert (again.incarnation, again.target_epoch) == (2, first.target_epoch)
    assert group.rebalances.first() == again, "the newest, although its number is no higher"


def test_the_database_learns_of_a_higher_incarnation(group: Group, store: Any) -> None:
    """It was restored from a copy, or was away when Redis' was raised."""
    run(set_incarnation(7), group.name)
    tick()
    group.refresh_from_db()
    assert group.incarnation == 7


def test_a_restarted_redis_gets_a_higher_incarnation(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str
) -> None:
    point_at(own_redis.url)
    group = make_group(group_name)
    agent = FakeAgent(group, "a")
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    own_redis.stop()
    with pytest.raises(StoreUnavailable):
        tick()
    own_redis.start()
    tick()
    group.refresh_from_db()
    assert group.incarnation == 2
    assert live_groups.read(group.name, Purpose.LOOK).meta.incarnation == 2
    assert owners(group) == dict.fromkeys(range(4), "a"), "held locks stay"


def _committed(group: Group, partition: Partition, offset: str) -> None:
    """An event with that id was there."""
    sync_client().xadd(StreamKeys(group.stream).entries(1), {"e": 1}, id=offset)
    sync_client().hset(GroupKeys(group.name).offsets, str(partition), offset)


def test_a_wiped_redis_gets_back_what_is_known_and_the_rest_is_said(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str, tmp_path: Path
) -> None:
    point_at(own_redis.url)
    group = make_group(group_name, **FAST)
    agent = FakeAgent(group, "a")
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    partition = Partition(group.stream, 1)
    _committed(group, partition, "9-0")
    sync_client().hset(GroupKeys(group.name).applied, str(partition), "50 1000")
    record = SnapshotRecord(
        url="file:///x",
        offset=Offset(7, 0),
        changelog_id="3-0",
        total=40,
        fence=agent.held[partition],
    )
    sync_client().xadd(GroupKeys(group.name).changelog(partition), {"a": "commit"}, id="3-0")
    run(snapshot(partition, record, trim=False), group.name)
    coordinator.sample()
    seq = live_groups.read(group.name, Purpose.LOOK).meta.event_seq
    own_redis.stop()
    fresh = EmbeddedRedis(tmp_path / "fresh", binary=wheel_binary())
    fresh.start()
    try:
        point_at(fresh.url)
        entries = StreamKeys(group.stream).entries(1)
        sync_client().xadd(entries, {"event": "1"}, id="5-0")  # by a clock that is behind
        tick()
        with pytest.raises(StoreUnavailable, match="equal or smaller"):
            sync_client().xadd(entries, {"event": "1"}, id="9-0")
        read = live_groups.read(group.name, Purpose.LOOK)
        assert read.offsets == {partition: Offset(7, 0)}, "its own snapshot's"
        assert read.applied[partition].total == 40
        assert not read.grants_are_possible, "one lease of waiting"
        assert read.meta.group_epoch >= Rebalance.objects.get().target_epoch
        assert read.meta.event_seq == seq
        entry = AuditEntry.objects.get(action="redis wiped")
        assert entry.result == "1 of 4 partitions put back; at least 10 events destroyed"
        put_back = {"offset": "7-0", "total": 40, "destroyed": 10}
        assert entry.after == {
            "destroyed": 10,
            "came_too_early": 1,
            "partitions": {str(partition): put_back},
        }
        assert HistoryGap.objects.get().events_lost is None

        def granting() -> bool:
            tick()
            return live_groups.read(group.name, Purpose.LOOK).grants_are_possible

        until(granting)
        again = FakeAgent(group, "b")
        again.start()
        coordinator.rebalance(group.name)
        again.follow()
        tick()
        assert owners(group) == dict.fromkeys(range(4), "b")
        assert all(fence >> 32 == 2 for fence in again.held.values())
        assert HistoryGap.objects.count() == 1
    finally:
        fresh.stop()


def test_members_that_come_back_after_a_wipe_get_what_they_had(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str, tmp_path: Path
) -> None:
    """Whoever is first waits for the others of the last target."""
    point_at(own_redis.url)
    group = make_group(group_name, **FAST)
    agents = [FakeAgent(group, name) for name in "ab"]
    for agent in agents:
        agent.start()
        coordinator.rebalance(group.name)
    before = Rebalance.objects.first()
    assert before is not None and set(before.owners()) == {"a", "b"}
    own_redis.stop()
    fresh = EmbeddedRedis(tmp_path / "fresh", binary=wheel_binary())
    fresh.start()
    try:
        point_at(fresh.url)
        tick()
        back = [FakeAgent(group, name) for name in "ba"]
        back[0].start()
        assert "not raised yet" in coordinator.rebalance(group.name)
        back[1].start()

        def granting() -> bool:
            for agent in back:
                agent.beat()
            tick()
            return live_groups.read(group.name, Purpose.LOOK).grants_are_possible

        until(granting)
        coordinator.rebalance(group.name)
        after = Rebalance.objects.first()
        assert after is not None and after.target_epoch > before.target_epoch
        assert (after.owners(), after.moved) == (before.owners(), 0)
        assert group.audit.filter(action="invariant broken").count() == 0
    finally:
        fresh.stop()
