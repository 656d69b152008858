"""A SQL sink through crashes and lost replies: a real database, a real Redis' scripts on the fake,
no Spark. An event's effect is one row, so that what is lost or doubled can be seen.
"""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.spark.commit import Committer, LeaseOver, Outcome, PartitionChanges
from agent.spark.shared import Shared
from agent.spark.sink_effects import DeliveredEffects, SqlEffects
from agent.spark.sink_start import WHOLE_SINK, SinkStart, hand_over, troubles
from agent.spark.source import Counted, Planner, Range
from agent.spark.sql_sink import (
    AtLeastOnceSink,
    Cursor,
    Delivery,
    Position,
    SinkDoor,
    SinkResult,
    SinkUnavailable,
    SqlSink,
    postgres_sink,
    sqlite_sink,
)
from agent.store.events import Packed
from assignment.errors import Fenced, InvalidInput
from assignment.scripts import CommitResult, Planned
from assignment.types import START, Claim, Offset, Partition
from tests.contract.world import P0, P1, World, offset
from tests.e2e.spark_world import SparkWorld
from tests.fakes import FakeDoor, FakeRedis

GROUP = "payments"


def write_rows(cursor: Cursor, delivery: Delivery) -> None:
    """One row for each event: its key and the offset up to which it came."""
    mark = "%s" if type(cursor).__module__.startswith("psycopg") else "?"
    for key, change in delivery.changes:
        values = (str(delivery.partition), key, change["amount"])
        cursor.execute(f"INSERT INTO effects VALUES ({mark}, {mark}, {mark})", values)


class Breaking(sqlite3.Connection):
    """A connection that loses its link around one commit: `before` it arrives, or `after`."""

    when = ""

    def commit(self) -> None:
        when, self.when = self.when, ""
        if when != "before":
            super().commit()
        if when:
            raise sqlite3.OperationalError("the link is gone")


class Database:
    """The sink's database with one table of effects."""

    def __init__(self, sink: SqlSink) -> None:
        self.sink = sink
        connection = sink.connect()
        connection.cursor().execute("DROP TABLE IF EXISTS effects")
        connection.cursor().execute(
            "CREATE TABLE effects (partition_name VARCHAR(100), event VARCHAR(100), amount BIGINT)"
        )
        connection.commit()
        connection.close()

    def events(self) -> list[str]:
        connection = self.sink.connect()
        cursor = connection.cursor()
        cursor.execute("SELECT event FROM effects ORDER BY event")
        found = [row[0] for row in cursor.fetchall()]
        connection.close()
        return found

    def door(self) -> SinkDoor:
        return SinkDoor(self.sink, GROUP)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(sqlite_sink(str(tmp_path / "sink.sqlite3"), write_rows))


@pytest.fixture
def world() -> World:
    """A group on the fake Redis in which "a" may take the partition, and after it "b"."""
    world = World(FakeDoor(FakeRedis()), GROUP)
    world.stand(a={P0, P1})
    world.join("b")
    return world


class Consumer:
    """What planner and driver of one consumer do with a partition, without Spark between them."""

    def __init__(self, world: World, database: Database, member_id: str, folder: Path) -> None:
        self.world = world
        self.member_id = member_id
        self.folder = folder / member_id
        self.folder.mkdir(exist_ok=True)
        self.start = SinkStart(database.door(), world.store, member_id, self.folder)
        self.door = database.door()
        self.committer = Committer(
            world.store, member_id, SqlEffects(self.door, lambda: True), lambda: True
        )
        self.batches = 0

    def plan(self) -> list[Planned]:
        return self.start.begin(self.world.store.plan(self.member_id), self.batches)

    def commit(self, planned: Planned, to: int) -> Outcome:
        """Events come one for each number in (committed, to]."""
        one = Range(planned.partition, planned.committed, offset(to), planned.fence)
        self.batches += 1
        events = range(planned.committed.ms + 1, to + 1)
        changes = PartitionChanges([(f"{n:03}", {"amount": n}) for n in events])
        counted = Counted(len(events), str(offset(to)))
        return self.committer.commit([(one, counted)], {planned.partition.number: changes})


def planned(fence: int, committed: int, total: int = 0, partition: Partition = P0) -> Planned:
    return Planned(partition, fence, offset(committed), total)


def committed(world: World) -> Offset:
    return world.store.committed([P0])[P0]


def hand_to_b(world: World, fence: int) -> int:
    world.let_expire("a", Claim(P0, fence))
    world.assign(a=set(), b={P0, P1})
    return world.running("b", P0)


def numbers(first: int, last: int) -> list[str]:
    return [f"{n:03}" for n in range(first, last + 1)]


# --- one transaction ------------------------------------------------------------------------------


def test_open_stores_the_fence_and_answers_where_to_begin(database: Database) -> None:
    door = database.door()
    assert door.open(P0, 7) == Position(7, START, 0)
    assert door.apply(delivery(7, 0, 3)) is SinkResult.APPLIED
    assert door.open(P0, 9) == Position(9, offset(3), 3)
    assert door.positions() == {P0: Position(9, offset(3), 3)}


def test_outdated_owner_can_neither_open_nor_write(database: Database) -> None:
    old, new = database.door(), database.door()
    old.open(P0, 7)
    new.open(P0, 9)
    assert old.apply(delivery(7, 0, 3)) is SinkResult.FENCED
    with pytest.raises(Fenced, match="flights:0: the sink was opened under fence 9"):
        old.open(P0, 7)
    assert database.events() == []


def test_delivery_from_another_offset_changes_nothing(database: Database) -> None:
    door = database.door()
    door.open(P0, 7)
    assert door.apply(delivery(7, 2, 3)) is SinkResult.MOVED
    assert door.apply(delivery(8, 0, 3)) is SinkResult.MOVED  # never opened under this fence
    assert database.events() == []


def test_effects_that_fail_leave_the_offset(database: Database, tmp_path: Path) -> None:
    def write(cursor: Cursor, delivery: Delivery) -> None:
        write_rows(cursor, delivery)
        raise ZeroDivisionError("in the user's code")

    door = SinkDoor(sqlite_sink(str(tmp_path / "sink.sqlite3"), write), GROUP)
    door.open(P0, 7)
    with pytest.raises(ZeroDivisionError):
        door.apply(delivery(7, 0, 3))
    assert (database.events(), door.positions()[P0].offset) == ([], START)


def test_groups_share_a_database(database: Database) -> None:
    other = SinkDoor(database.sink, "other")
    database.door().open(P0, 7)
    assert other.open(P0, 1) == Position(1, START, 0)
    assert list(other.positions()) == [P0]


def delivery(fence: int, low: int, high: int) -> Delivery:
    return Delivery(
        partition=P0,
        fence=fence,
        from_offset=offset(low),
        to_offset=offset(high),
        events=high - low,
        changes=[(f"{n:03}", {"amount": n}) for n in range(low + 1, high + 1)],
    )


@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_reply_of_the_commit_is_resolved_by_asking_again(
    database: Database, tmp_path: Path, when: str
) -> None:
    connections: list[Breaking] = []

    def connect() -> Breaking:
        connections.append(sqlite3.connect(tmp_path / "sink.sqlite3", factory=Breaking))
        return connections[-1]

    door = SinkDoor(SqlSink(connect=connect, write=write_rows), GROUP)
    door.open(P0, 7)
    connections[0].when = when
    with pytest.raises(SinkUnavailable, match="the link is gone"):
        door.apply(delivery(7, 0, 3))
    again = door.apply(delivery(7, 0, 3))
    assert again is (SinkResult.ALREADY if when == "after" else SinkResult.APPLIED)
    assert (database.events(), len(connections)) == (numbers(1, 3), 2)


# --- what would not be one transaction ------------------------------------------------------------


def test_connection_in_autocommit_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "sink.sqlite3")
    sink = SqlSink(connect=lambda: sqlite3.connect(path, isolation_level=None), write=write_rows)
    with pytest.raises(InvalidInput, match="autocommit"):
        SinkDoor(sink, GROUP).positions()


def test_write_that_commits_is_refused(database: Database, tmp_path: Path) -> None:
    def write(cursor: Cursor, delivery: Delivery) -> None:
        cursor.executescript("SELECT 1")  # commits what is open

    door = SinkDoor(sqlite_sink(str(tmp_path / "sink.sqlite3"), write), GROUP)
    door.open(P0, 7)
    with pytest.raises(InvalidInput, match="ended the transaction"):
        door.apply(delivery(7, 0, 3))


def test_wrong_statement_is_no_reason_to_wait(tmp_path: Path) -> None:
    def write(cursor: Cursor, delivery: Delivery) -> None:
        cursor.execute("INSERT INTO nowhere VALUES (1)")

    door = SinkDoor(sqlite_sink(str(tmp_path / "sink.sqlite3"), write), GROUP)
    door.open(P0, 7)
    with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
        door.apply(delivery(7, 0, 3))


@pytest.mark.parametrize("changes", [{"table": ""}, {"table": "a b"}, {"table": "x;y"}])
def test_sink_that_cannot_be_is_refused(changes: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        SqlSink(connect=lambda: None, write=write_rows, **changes)


# --- the sink and Redis ---------------------------------------------------------------------------


def test_batches_move_the_sink_and_redis_together(
    world: World, database: Database, tmp_path: Path
) -> None:
    world.running("a", P0)
    consumer = Consumer(world, database, "a", tmp_path)
    for to in (3, 8):
        (one,) = consumer.plan()
        assert consumer.commit(one, to).applied == {P0: to - one.committed.ms}
    assert (committed(world), database.events()) == (offset(8), numbers(1, 8))
    assert world.read().applied[P0].total == 8
    assert world.door.ask("XRANGE", world.keys.changelog(P0), "-", "+") == []


def test_crash_between_the_sink_and_redis_loses_and_doubles_nothing(
    world: World, database: Database, tmp_path: Path
) -> None:
    fence = world.running("a", P0)
    first = Consumer(world, database, "a", tmp_path)
    (one,) = first.plan()
    assert first.door.apply(delivery(one.fence, 0, 5)) is SinkResult.APPLIED  # and it dies here
    assert committed(world) == START

    restarted = Consumer(world, database, "a", tmp_path)  # under the same fence
    assert restarted.plan() == [planned(fence, 5, 5)]
    assert committed(world) == offset(5)
    restarted.commit(planned(fence, 5, 5), 9)
    assert (committed(world), database.events()) == (offset(9), numbers(1, 9))
    assert world.read().applied[P0].total == 9


def test_crash_between_the_sink_and_redis_is_healed_by_the_next_owner(
    world: World, database: Database, tmp_path: Path
) -> None:
    fence = world.running("a", P0)
    (one,) = Consumer(world, database, "a", tmp_path).plan()
    database.door().apply(delivery(one.fence, 0, 5))
    fence_b = hand_to_b(world, fence)
    b = Consumer(world, database, "b", tmp_path)
    assert b.plan() == [planned(fence_b, 5, 5)]
    b.commit(planned(fence_b, 5, 5), 7)
    assert (committed(world), database.events()) == (offset(7), numbers(1, 7))


def test_paused_owner_is_refused_after_another_opened_the_sink(
    world: World, database: Database, tmp_path: Path
) -> None:
    fence = world.running("a", P0)
    paused = Consumer(world, database, "a", tmp_path)
    (one,) = paused.plan()
    b = Consumer(world, database, "b", tmp_path)
    fence_b = hand_to_b(world, fence)
    assert b.plan() == [planned(fence_b, 0)]
    outcome = paused.commit(one, 5)  # it goes on
    assert (outcome.applied, [o.fence for o in outcome.fenced]) == ({}, [fence])
    b.commit(planned(fence_b, 0), 4)
    assert (committed(world), database.events()) == (offset(4), numbers(1, 4))


def test_owner_paused_after_its_sink_commit_counts_once(
    world: World, database: Database, tmp_path: Path
) -> None:
    """Its effects were first; its commit in Redis is refused, the next owner's stands for it."""
    fence = world.running("a", P0)
    paused = Consumer(world, database, "a", tmp_path)
    (one,) = paused.plan()
    paused.door.apply(delivery(one.fence, 0, 5))
    fence_b = hand_to_b(world, fence)
    b = Consumer(world, database, "b", tmp_path)
    assert b.plan() == [planned(fence_b, 5, 5)]
    assert [o.fence for o in paused.commit(one, 5).fenced] == [
        fence
    ]  # the sink refuses before Redis is asked
    refused = world.commit(P0, fence, START, offset(5), changelog=False)
    assert refused.result is CommitResult.FENCED
    assert (committed(world), database.events()) == (offset(5), numbers(1, 5))


def test_outdated_owner_plans_nothing_more(
    world: World, database: Database, tmp_path: Path
) -> None:
    """Redis may not know yet, for example when it lost the last seconds: the sink does."""
    fence = world.running("a", P0)
    a = Consumer(world, database, "a", tmp_path)
    database.door().open(P0, fence + 1)
    assert a.plan() == []
    assert troubles(a.folder) == {
        "flights:0": f"flights:0: the sink was opened under fence {fence + 1}"
    }


def test_redis_ahead_of_the_sink_halts_that_partition_and_says_so(
    world: World, database: Database, tmp_path: Path
) -> None:
    fence, other = world.running("a", P0), world.running("a", P1)
    world.commit(P0, fence, START, offset(6), changelog=False)
    a = Consumer(world, database, "a", tmp_path)
    assert a.plan() == [planned(other, 0, partition=P1)]
    assert troubles(a.folder) == {
        "flights:0": "flights:0 halted: Redis is at 6-0, ahead of its sink at 0-0;"
        " was the sink restored from a copy?"
    }
    assert (committed(world), database.events()) == (offset(6), [])


def test_redis_that_lost_writes_is_brought_to_the_sink(
    world: World, database: Database, tmp_path: Path
) -> None:
    fence = world.running("a", P0)
    a = Consumer(world, database, "a", tmp_path)
    for to in (3, 8):
        (one,) = a.plan()
        a.commit(one, to)
    server = world.door.server
    del server.hashes[world.keys.offsets]  # as before the first commit
    del server.hashes[world.keys.applied]
    assert a.plan() == [planned(fence, 8, 8)]
    assert (committed(world), world.read().applied[P0].total) == (offset(8), 8)


def test_redis_behind_in_the_middle_of_a_tenure_is_seen_with_the_next_plan(
    world: World, database: Database, tmp_path: Path
) -> None:
    """The lease was over before Redis answered: the batch was given up with its effects stored."""
    world.running("a", P0)
    a = Consumer(world, database, "a", tmp_path)
    (one,) = a.plan()
    a.door.apply(delivery(one.fence, 0, 5))
    outcome = a.commit(one, 7)  # planned before that was known
    assert (outcome.applied, outcome.moved) == ({}, [P0])
    (again,) = a.plan()
    assert again.committed == offset(5)
    a.commit(again, 7)
    assert (committed(world), database.events()) == (offset(7), numbers(1, 7))


def test_idle_plans_do_not_ask_the_sink(world: World, database: Database, tmp_path: Path) -> None:
    world.running("a", P0)
    a = Consumer(world, database, "a", tmp_path)
    first = a.plan()
    a.start._door.positions = None  # type: ignore[assignment,method-assign]
    assert a.plan() == first


def test_plan_is_empty_while_the_database_is_away(world: World, tmp_path: Path) -> None:
    def connect() -> Any:
        raise ConnectionRefusedError("nobody listens")

    now = [100.0]
    world.running("a", P0)
    door = SinkDoor(SqlSink(connect=connect, write=write_rows), GROUP)
    start = SinkStart(door, world.store, "a", tmp_path, clock=lambda: now[0])
    assert start.begin(world.store.plan("a"), 0) == []
    assert troubles(tmp_path) == {WHOLE_SINK: "the sink's database refuses: nobody listens"}

    back = Database(sqlite_sink(str(tmp_path / "sink.sqlite3"), write_rows))
    start._door = back.door()
    assert start.begin(world.store.plan("a"), 0) == []  # not asked again at once
    now[0] += 10
    assert [p.committed for p in start.begin(world.store.plan("a"), 0)] == [START]
    assert troubles(tmp_path) == {}


def test_lease_that_ends_while_the_database_is_away_gives_the_batch_up(database: Database) -> None:
    def connect() -> Any:
        raise ConnectionRefusedError("nobody listens")

    answers = iter([True, True, False])
    door = SinkDoor(SqlSink(connect=connect, write=write_rows), GROUP)
    effects = SqlEffects(door, lambda: next(answers))
    one = Range(P0, START, offset(3), 7)
    with pytest.raises(LeaseOver):
        effects.prepare(one, Counted(3, "3-0"), START, PartitionChanges())


def test_database_that_stays_away_ends_the_consumer() -> None:
    def connect() -> Any:
        raise ConnectionRefusedError("nobody listens")

    clock = iter([0.0, 1.0, 1_000.0])
    door = SinkDoor(SqlSink(connect=connect, write=write_rows), GROUP)
    effects = SqlEffects(door, lambda: True, clock=lambda: next(clock))
    with pytest.raises(SinkUnavailable):
        effects.prepare(
            Range(P0, START, offset(3), 7), Counted(3, "3-0"), START, PartitionChanges()
        )


def test_planner_process_gets_the_sink_through_the_folder(
    world: World, database: Database, tmp_path: Path
) -> None:
    world.running("a", P0)
    assert SinkStart.handed_over(tmp_path, world.store, GROUP, "a") is None
    hand_over(database.sink, tmp_path)
    start = SinkStart.handed_over(tmp_path, world.store, GROUP, "a")
    assert start is not None
    assert [p.committed for p in start.begin(world.store.plan("a"), 0)] == [START]


def test_planner_reads_from_where_the_sink_stands(
    redis_url: str, group_name: str, database: Database, tmp_path: Path
) -> None:
    """The real planner over a real Redis, as Spark's planner process makes it."""
    real = SparkWorld(redis_url, group_name, tmp_path, partitions=1)
    partition = real.partitions[0]
    first, last = (real.append(partition, Packed((b"json", b"{}"), 1, 2)) for _ in range(2))
    door = SinkDoor(database.sink, group_name)
    fence = real.fences[partition]
    door.open(partition, fence)
    door.apply(replace(delivery(fence, 0, 1), partition=partition, to_offset=first))
    folder = tmp_path / "shared"
    folder.mkdir()
    shared = Shared.create(folder)
    shared.set("lease_end_ms", 2**62)
    shared.set("events_max", 1_000)
    hand_over(database.sink, folder)
    places = {"redis_url": redis_url, "group": group_name, "member": "m1", "folder": str(folder)}
    plan = Planner({**places, "tasks": "1"}).next_plan(1)
    assert plan is not None
    assert plan["p"] == {"0": [str(first), str(last), fence]}
    assert real.committed() == [first]


# --- a sink that cannot ---------------------------------------------------------------------------


def test_sink_without_transactions_is_at_least_once_and_says_so(world: World) -> None:
    fence = world.running("a", P0)
    delivered: list[Delivery] = []
    sink = AtLeastOnceSink(deliver=delivered.append)
    committer = Committer(world.store, "a", DeliveredEffects(sink), lambda: True)
    one = Range(P0, START, offset(3), fence)
    sink.deliver(delivery(fence, 0, 3))  # it died before the commit in Redis
    outcome = committer.commit([(one, Counted(3, "3-0"))], {})
    assert outcome.applied == {P0: 3}
    assert [d.idempotency_key for d in delivered] == [("flights:0", "3-0")] * 2
    assert "at least once" in sink.guarantee and "exactly once" in SqlSink.guarantee
    moved = committer.commit([(one, Counted(3, "3-0"))], {})
    assert (moved.moved, len(delivered)) == ([P0], 2)


# --- PostgreSQL -----------------------------------------------------------------------------------


@pytest.mark.postgres
def test_postgres_sink_keeps_the_same_promises(
    world: World, postgres_url: str, tmp_path: Path
) -> None:
    database = Database(postgres_sink(postgres_url, write_rows))
    fence = world.running("a", P0)
    first = Consumer(world, database, "a", tmp_path)
    (one,) = first.plan()
    first.commit(one, 3)
    assert first.door.apply(delivery(fence, 3, 5)) is SinkResult.APPLIED  # Redis never hears of it
    assert first.door.apply(delivery(fence, 3, 5)) is SinkResult.ALREADY
    fence_b = hand_to_b(world, fence)
    b = Consumer(world, database, "b", tmp_path)
    assert b.plan() == [planned(fence_b, 5, 5)]
    assert first.door.apply(delivery(fence, 5, 9)) is SinkResult.FENCED
    b.commit(planned(fence_b, 5, 5), 7)
    assert (committed(world), database.events()) == (offset(7), numbers(1, 7))


@pytest.mark.postgres
def test_postgres_open_waits_for_a_commit_that_is_under_way(postgres_url: str) -> None:
    """A killed owner's transaction may still commit: who opens after it begins behind it."""
    reached, go_on = threading.Event(), threading.Event()

    def write(cursor: Cursor, delivery: Delivery) -> None:
        write_rows(cursor, delivery)
        reached.set()
        assert go_on.wait(10)

    database = Database(postgres_sink(postgres_url, write_rows))
    old = SinkDoor(postgres_sink(postgres_url, write), "waiting")
    old.open(P0, 7)
    writing = threading.Thread(target=old.apply, args=(delivery(7, 0, 3),))
    writing.start()
    assert reached.wait(10)
    new, found = SinkDoor(database.sink, "waiting"), []
    opening = threading.Thread(target=lambda: found.append(new.open(P0, 9)))
    opening.start()
    opening.join(0.2)
    assert opening.is_alive()
    go_on.set()
    writing.join(10)
    opening.join(10)
    assert (found, database.events()) == ([Position(9, offset(3), 3)], numbers(1, 3))


@pytest.mark.postgres
def test_postgres_statement_that_failed_in_secret_is_found(postgres_url: str) -> None:
    """COMMIT of a failed transaction is a rollback, and PostgreSQL gives no error."""

    def write(cursor: Cursor, delivery: Delivery) -> None:
        write_rows(cursor, delivery)
        with suppress(cursor.connection.Error):
            cursor.execute("INSERT INTO nowhere VALUES (1)")

    database = Database(postgres_sink(postgres_url, write_rows))
    door = SinkDoor(postgres_sink(postgres_url, write), "failing")
    door.open(P0, 7)
    with pytest.raises(InvalidInput, match="hid an error"):
        door.apply(delivery(7, 0, 3))
    assert (database.events(), door.positions()[P0].offset) == ([], START)


@pytest.mark.postgres
def test_postgres_table_may_be_made_by_many_at_once(postgres_url: str) -> None:
    sink = replace(postgres_sink(postgres_url, write_rows), table="made_together")
    doors = [SinkDoor(sink, GROUP) for _ in range(6)]
    with ThreadPoolExecutor(len(doors)) as pool:
        assert list(pool.map(lambda door: door.positions(), doors)) == [{}] * len(doors)
    for door in doors:
        door.close()
