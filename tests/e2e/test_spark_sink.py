"""A pipeline with a SQL sink on real Spark, Redis and locks: the sink's offset is the truth."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from agent.spark.pipeline import Pipeline
from agent.spark.sql_sink import Cursor, Delivery, SinkDoor, SinkResult, SqlSink, sqlite_sink
from assignment.scripts.dead_letters import DeadLetter
from assignment.types import START, Offset, Partition
from tests.e2e.spark_world import SparkWorld, arrow, lines, one, until

pytestmark = pytest.mark.spark


def summed(events: DataFrame) -> DataFrame:
    return events.groupBy("partition", "key").agg(F.sum("amount").alias("amount"))


def add(cursor: Cursor, delivery: Delivery) -> None:
    """Sums per partition and key; they tell whether an event counted twice or never."""
    for key, change in delivery.changes:
        cursor.execute(
            "INSERT INTO sums VALUES (?, ?, ?) ON CONFLICT (partition_name, event_key)"
            " DO UPDATE SET amount = amount + excluded.amount",
            (str(delivery.partition), key, change["amount"]),
        )


class Sums:
    """The sink's database; also what a second consumer of the group does to it."""

    def __init__(self, folder: Path, group: str) -> None:
        self.sink: SqlSink = sqlite_sink(str(folder / "sums.sqlite3"), add)
        self.group = group
        connection = self.sink.connect()
        connection.execute(
            "CREATE TABLE sums (partition_name TEXT, event_key TEXT, amount BIGINT,"
            " PRIMARY KEY (partition_name, event_key))"
        )
        connection.commit()
        connection.close()

    def pipeline(self) -> Pipeline:
        schema = "key string, amount bigint"
        return Pipeline(name="sums", schema=schema, changes=summed, sink=self.sink)

    def of(self, partition: Partition) -> dict[str, int]:
        connection = self.sink.connect()
        rows = connection.execute(
            "SELECT event_key, amount FROM sums WHERE partition_name = ?", (str(partition),)
        ).fetchall()
        connection.close()
        return dict(rows)

    def offset(self, partition: Partition) -> Offset:
        return self.door().positions()[partition].offset

    def door(self) -> SinkDoor:
        return SinkDoor(self.sink, self.group)


@pytest.fixture
def sums(world: SparkWorld, tmp_path: Path) -> Sums:
    return Sums(tmp_path, world.name)


def test_effects_and_offset_stand_in_the_sink(
    world: SparkWorld, session: SparkSession, sums: Sums
) -> None:
    first, second = world.partitions
    world.append(first, one(key="a", amount=1), arrow({"key": "a", "amount": 2}))
    world.append(second, lines({"key": "b", "amount": 4}, {"key": "c", "amount": 8}))
    with world.consuming(sums.pipeline(), session):
        until(world.all_committed, "the first events")
        world.append(first, one(key="a", amount=16), one(key="b", amount=32))
        until(world.all_committed, "the second events")
    assert sums.of(first) == {"a": 19, "b": 32}
    assert sums.of(second) == {"b": 4, "c": 8}
    assert [sums.offset(p) for p in world.partitions] == [world.end(p) for p in world.partitions]
    assert world.changelog(first) == [], "state is the sink's"


def test_redis_behind_its_sink_is_brought_there_and_nothing_counts_twice(
    world: SparkWorld, session: SparkSession, sums: Sums
) -> None:
    """As after a crash between the sink's commit and Redis'; its dead letter comes with it."""
    first, second = world.partitions
    done = world.append(first, one(key="a", amount=1))
    door = sums.door()
    door.open(first, world.fences[first])
    delivery = Delivery(
        partition=first,
        fence=world.fences[first],
        from_offset=START,
        to_offset=done,
        events=1,
        changes=[("a", {"amount": 1})],
        dead=[DeadLetter("bad", str(done), 1, b"{")],
    )
    assert door.apply(delivery) is SinkResult.APPLIED
    world.append(first, one(key="a", amount=2))
    world.append(second, one(key="b", amount=4))
    assert world.committed() == [START, START]
    with world.consuming(sums.pipeline(), session):
        until(world.all_committed, "everything")
    assert sums.of(first) == {"a": 3}
    assert sums.of(second) == {"b": 4}
    assert world.dead_letters(first) == list(delivery.dead)


def test_batch_of_an_owner_of_yesterday_leaves_no_effect(
    world: SparkWorld, session: SparkSession, sums: Sums
) -> None:
    """The partition is taken over, and opened in the sink, while a batch of it is in hand."""
    first, second = world.partitions
    taken: list[int] = []

    def lose_one(events: DataFrame) -> DataFrame:
        changed = summed(events)
        if not taken and world.committed()[1] != START:
            world.take_over(first)
            sums.door().open(first, world.fences[first])
            taken.append(1)
        return changed

    pipeline = Pipeline(
        name="sums", schema="key string, amount bigint", changes=lose_one, sink=sums.sink
    )
    with world.consuming(pipeline, session):
        world.append(second, one(key="b", amount=4))
        until(lambda: world.committed()[1] == world.end(second), "a first batch")
        world.append(first, one(key="a", amount=1))
        world.append(second, one(key="b", amount=8))
        until(lambda: world.committed()[1] == world.end(second), "the partition that stayed")
    assert taken == [1]
    assert sums.of(first) == {}
    assert sums.offset(first) == START == world.committed()[0]
    assert sums.of(second) == {"b": 12}
