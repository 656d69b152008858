"""Planner, reading tasks and commit of a batch that replays, on a real Redis, without Spark between
them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from agent.spark.commit import Committer, Outcome, PartitionChanges, counted_ranges
from agent.spark.effects import StateEffects
from agent.spark.ranges import batch_name, plan_of
from agent.spark.replays import ids_of
from agent.spark.shared import Shared
from agent.spark.source import EvenkeelReader, Planner
from assignment.scripts import crashes
from assignment.scripts.crashes import Skip
from assignment.types import Offset
from tests.e2e.spark_world import SparkWorld, lines, one, raw

RUN = "run"
SCHEMA = (
    StructType().add("key", StringType()).add("amount", LongType()).add("partition", IntegerType())
)


def add(old: Any, change: Mapping[str, Any]) -> Any:
    return (old or 0) + change["amount"]


class Consumer:
    """What Spark does with a batch is one sum for each key."""

    def __init__(self, world: SparkWorld, folder: Path) -> None:
        shared = Shared.create(folder)
        shared.set("lease_end_ms", 2**62)
        shared.set("events_max", 100_000)
        options = {"redis_url": world.url, "group": world.name, "member": "m1", "tasks": "2"}
        options |= {"folder": str(folder), "stream": world.name, "run": RUN}
        self.world, self.planner = world, Planner(options)
        self.reader = EvenkeelReader(options, SCHEMA)
        effects = StateEffects(world.store, str(folder / "state"), world.name, add)
        self.committer = Committer(world.store, "m1", effects, lambda: True)
        self.number = 0

    def batch(self) -> tuple[dict[str, Any], Outcome]:
        self.number += 1
        plan = self.planner.next_batch(self.number)
        assert plan is not None
        changes: dict[int, list[tuple[str, Mapping[str, Any]]]] = {}
        for task in self.reader.partitions({}, plan):
            for batch in self.reader.read(task):
                for row in batch.to_pylist():
                    key, amount, number = (row[name] for name in ("key", "amount", "partition"))
                    totals = changes.setdefault(number, [])
                    totals.append((key, {"amount": amount}))
        ranges, name = plan_of(plan, self.world.name), batch_name(RUN, plan)
        names = [each.name(name) for each in ranges]
        packed = self.world.events.take_counts(self.world.name, "m1", names)
        changed = {number: PartitionChanges(rows) for number, rows in changes.items()}
        counted = counted_ranges(ranges, name, packed)
        return plan, self.committer.commit(counted, changed, ids_of(plan.get("replay", ())))


@pytest.fixture
def world(redis_url: str, group_name: str, tmp_path: Path) -> SparkWorld:
    return SparkWorld(redis_url, group_name, tmp_path)


def test_letters_are_read_again_and_each_counts_once(world: SparkWorld, tmp_path: Path) -> None:
    first, consumer = world.partitions[0], Consumer(world, tmp_path)
    entry = world.append(first, lines({"key": "a", "amount": 1}, b"[]", {"key": "b", "amount": 2}))
    world.world.run(crashes.skip(first, Skip(entry=entry, actor="bob", reason="no use")))
    consumer.batch()
    world.append(first, one(key="c", amount=4), raw(b"json", b"{"))
    consumer.batch()
    end = world.end(first)
    whole, broken = world.dead_letters(first)
    assert (whole.index, broken.index, world.state(first)) == (None, 0, {"c": 4})
    total = world.world.read().applied[first].total

    world.replay(first)
    plan, outcome = consumer.batch()
    assert [actor for _, actor in plan["replay"]] == ["ann", "ann"]
    assert (outcome.applied, outcome.dead_letters) == ({first: 0}, 0)
    assert world.state(first) == {"a": 1, "b": 2, "c": 4}
    assert (world.committed()[0], world.replays(first)) == (end.next, False)
    assert [(x.entry_id, x.index, x.raw) for x in world.dead_letters(first)] == [
        (str(entry), 1, b"[]"),
        (str(end), 0, b"{"),
    ]
    assert {x.reason.partition(":")[0] for x in world.dead_letters(first)} == {"replayed by ann"}
    assert world.world.read().applied[first].total == total == 5

    world.append(first, one(key="c", amount=8))
    plan, _ = consumer.batch()
    assert ("replay" in plan, plan["p"]["0"][0]) == (False, str(end.next))
    assert world.state(first) == {"a": 1, "b": 2, "c": 12}
    assert world.committed()[0] == world.end(first) != Offset(0, 0)
