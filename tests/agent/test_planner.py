"""What a batch may read, decided on a real Redis without Spark."""

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from agent.spark.shared import Shared
from agent.spark.source import (
    BATCH_BYTES_MAX,
    EVENTS_PER_RANGE_MIN,
    NOTHING,
    EvenkeelReader,
    Planner,
)
from agent.store.events import EventStore, Packed
from assignment.types import START, Claim, Offset
from tests.e2e.spark_world import SparkWorld, one


@pytest.fixture
def world(redis_url: str, group_name: str, tmp_path: Path) -> SparkWorld:
    return SparkWorld(redis_url, group_name, tmp_path)


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    made = Shared.create(tmp_path)
    made.set("lease_end_ms", 2**62)
    made.set("events_max", 100_000)
    return made


@pytest.fixture
def planner(world: SparkWorld, shared: Shared, tmp_path: Path) -> Planner:
    options = {"redis_url": world.url, "group": world.name, "member": "m1", "tasks": "2"}
    return Planner({**options, "folder": str(tmp_path), "stream": world.name})


def ranges(plan: dict | None) -> dict[str, tuple[str, str]]:
    return {} if plan is None else {n: (r[0], r[1]) for n, r in plan["p"].items()}


def test_plan_goes_from_the_committed_offset_to_the_end(world, planner, shared) -> None:
    first = world.partitions[0]
    end = world.append(first, one(a=1), one(a=2))
    plan = planner.next_plan(7)
    assert plan["n"] == 7
    assert plan["p"] == {"0": ["0-0", str(end), world.fences[first]]}
    assert shared.read_plan() == plan
    assert shared.get("planned") == 7


def test_plan_is_bounded_by_events_at_a_point_of_the_index(world, planner, shared) -> None:
    shared.set("events_max", 2 * 3_000)
    first = world.partitions[0]
    for _ in range(20):
        world.append(first, *[one(a=n) for n in range(500)])
    _, end = ranges(planner.next_plan(1))["0"]
    read = EventStore.connect(world.url).read(first, START, Offset.parse(end))
    assert sum(map(len, read)) == 3_000


def test_plan_is_bounded_by_bytes(world, planner) -> None:
    first = world.partitions[0]
    large = Packed((b"json", b"x" * 2**20), 1, 2**20)
    for _ in range(10):
        world.append(first, *[large] * 4)
    _, end = ranges(planner.next_plan(1))["0"]
    read = EventStore.connect(world.url).read(first, START, Offset.parse(end))
    assert sum(map(len, read)) == BATCH_BYTES_MAX // 2 // 2**20


def test_what_others_hold_is_not_planned(world, planner) -> None:
    first, second = world.partitions
    world.append(first, one(a=1))
    world.append(second, one(a=1))
    world.take_over(first)
    assert list(ranges(planner.next_plan(1))) == ["1"]


def test_what_was_answered_fenced_is_planned_under_a_higher_fence_only(
    world, planner, shared
) -> None:
    first = world.partitions[0]
    world.append(first, one(a=1))
    shared.hold_back([(str(first), world.fences[first])], "keep")
    assert planner.next_plan(1) is None
    world.store.release("m1", [Claim(first, world.fences[first])])
    world.give("m1", [first])
    assert list(ranges(planner.next_plan(1))) == ["0"]


@pytest.mark.parametrize("fact", [("lease_end_ms", 0), ("stopping", 1)])
def test_nothing_is_planned_any_more(world, planner, shared, fact) -> None:
    world.append(world.partitions[0], one(a=1))
    shared.set(*fact)
    assert planner.next_plan(1) is None


def test_few_events_are_read_in_one_task_once_their_number_is_known(world, planner) -> None:
    first = world.partitions[0]
    fence = world.fences[first]
    end = world.append(first, one(a=1))
    assert planner.next_plan(1)["tasks"] == 2  # how many lie before is not known yet
    assert world.world.commit(first, fence, START, end, member_id="m1").applied
    world.append(first, one(a=2), one(a=3))
    assert planner.next_plan(2)["tasks"] == 1


def test_entries_that_no_library_counted_are_probed(world, planner) -> None:
    first = world.partitions[0]
    for n in range(1_500):
        world.store.door.ask("XADD", f"{{{first}}}", f"{n + 1}-0", "a", n)
    assert ranges(planner.next_plan(1))["0"] == ("0-0", "1500-0")
    assert EVENTS_PER_RANGE_MIN == 1_000


def test_foreign_entries_above_counted_ones_are_read_too(world, planner) -> None:
    first = world.partitions[0]
    world.append(first, *[one(a=n) for n in range(1_200)])
    world.store.door.ask("XADD", f"{{{first}}}", "*", "a", "1")
    _, middle = ranges(planner.next_plan(1))["0"]
    fence = world.fences[first]
    answer = world.world.commit(first, fence, START, Offset.parse(middle), member_id="m1")
    assert answer.applied
    _, end = ranges(planner.next_plan(2))["0"]
    assert Offset.parse(end) == world.end(first)


def test_redis_that_does_not_answer_gives_no_plan(world, shared, tmp_path: Path) -> None:
    options = {"redis_url": "redis://127.0.0.1:1/0", "group": world.name, "member": "m1"}
    planner = Planner({**options, "tasks": "2", "folder": str(tmp_path), "stream": world.name})
    assert planner.next_plan(1) is None


def test_practice_is_planned_before_anything_else_and_reads_nothing(
    world, planner, shared, tmp_path
) -> None:
    world.append(world.partitions[0], one(a=1))
    reader = EvenkeelReader(
        {"redis_url": world.url, "group": world.name, "member": "m1", "stream": world.name}
        | {"folder": str(tmp_path), "run": "r", "tasks": "2"},
        StructType().add("a", "long").add("partition", "integer"),
    )
    for left, tasks in ((2, 2), (1, 1)):
        shared.set("practice", left)
        plan = planner.next_plan(7)
        assert plan == {**NOTHING, "n": 7, "tasks": tasks, "practice": left}
        parts = reader.partitions(reader.initialOffset(), plan)
        assert len(parts) == tasks
        (read,) = {batch.num_rows for part in parts for batch in reader.read(part)}
        assert read == 0
    shared.set("stopping", 1)
    assert planner.next_plan(8) is None
    shared.set("stopping", 0)
    shared.set("practice", 0)
    assert list(ranges(planner.next_plan(9))) == ["0"]
