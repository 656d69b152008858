"""A SQL sink with a real database, a consumer of it without Spark, and how partitions change hands.

An event's effect is one row, so that what is lost or doubled can be seen.
"""

import sqlite3
from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.spark.commit import Committer, Outcome, PartitionChanges
from agent.spark.ranges import range_of
from agent.spark.reading import Counted
from agent.spark.sink_effects import SqlEffects
from agent.spark.sink_start import SinkStart
from agent.spark.sql_sink import Cursor, Delivery, SinkDoor, SqlSink
from assignment.scripts import agent_side
from assignment.scripts.agent_side import BatchStart
from assignment.scripts.dead_letters import DeadLetter
from assignment.types import Claim, Offset, Partition
from tests.contract.world import P0, P1, World, offset

GROUP = "payments"
NOBODY_LISTENS = "nobody listens"


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


def door_to_nobody() -> SinkDoor:
    """Of a sink whose database is away."""

    def connect() -> Any:
        raise ConnectionRefusedError(NOBODY_LISTENS)

    return SinkDoor(SqlSink(connect=connect, write=write_rows), GROUP)


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


class Consumer:
    """What planner and driver of one consumer do with a partition, without Spark between them."""

    def __init__(self, world: World, database: Database, member_id: str, folder: Path) -> None:
        self.world = world
        self.member_id = member_id
        self.folder = folder / member_id
        self.folder.mkdir(exist_ok=True)
        self.start = SinkStart(database.door(), world.store, member_id)
        self.door = database.door()
        self.committer = Committer(
            world.store, member_id, SqlEffects(self.door, lambda: True), lambda: True
        )
        self.batches = 0

    def next_batch(self) -> list[BatchStart]:
        """Without the id of the server, which only a commit asks for."""
        begun = self.start.begin(
            self.world.store.run(agent_side.next_batch(self.member_id)), self.batches
        )
        return [replace(one, replication_id="") for one in begun]

    def commit(self, planned: BatchStart, to: int, bad: Container[int] = ()) -> Outcome:
        """Events come one for each number in (committed, to]; of the `bad` none can be read."""
        one = range_of(planned, offset(to))
        self.batches += 1
        events = range(planned.committed.ms + 1, to + 1)
        good = [(f"{n:03}", {"amount": n}) for n in events if n not in bad]
        dead = [bad_letter(n) for n in events if n in bad]
        counted = Counted(len(events), str(offset(to)), dead=dead)
        changes = {planned.partition.number: PartitionChanges(good)}
        return self.committer.commit([(one, counted)], changes)


def planned(fence: int, committed: int, total: int = 0, partition: Partition = P0) -> BatchStart:
    return BatchStart(partition, fence, offset(committed), total)


def bad_letter(number: int) -> DeadLetter:
    """Of a text that is no UTF-8, and has what a database may refuse."""
    return DeadLetter("bad\0", str(offset(number)), 0, b"%03d \xff\0" % number)


def committed(world: World) -> Offset:
    return world.store.committed([P0])[P0]


def hand_to_b(world: World, fence: int) -> int:
    world.let_expire("a", Claim(P0, fence))
    world.assign(a=set(), b={P0, P1})
    return world.running("b", P0)


def numbers(first: int, last: int) -> list[str]:
    return [f"{n:03}" for n in range(first, last + 1)]


def delivery(fence: int, low: int, high: int) -> Delivery:
    return Delivery(
        partition=P0,
        fence=fence,
        from_offset=offset(low),
        to_offset=offset(high),
        events=high - low,
        changes=[(f"{n:03}", {"amount": n}) for n in range(low + 1, high + 1)],
    )
