"""What a batch may read, decided on a real Redis without Spark."""

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from agent.spark.planner import BATCH_BYTES_MAX, EVENTS_PER_RANGE_MIN, Planner
from agent.spark.ranges import NOTHING
from agent.spark.shared import Shared
from agent.spark.source import EvenkeelReader
from agent.spark.warm_up import BATCHES_MAX, ENTRIES, WarmUp, tasks_of
from agent.store.door import ScriptCall
from agent.store.events import EventStore, Packed
from assignment.pauses import Pause, Pauses, PauseState
from assignment.scripts import agent_side, crashes, dead_letters
from assignment.scripts.agent_side import StateChange
from assignment.scripts.crashes import Skip
from assignment.scripts.dead_letters import DeadLetter
from assignment.scripts.pausing import pause_state, set_pauses
from assignment.troubles import HaltReason
from assignment.types import START, HeldState, Offset, Range
from assignment.wire import GroupKeys, StreamKeys
from dashboard.evaluation.cluster_servers import Cluster
from tests.e2e.spark_world import SparkWorld, one, raw


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
    plan = planner.next_batch(7)
    assert plan["n"] == 7
    assert plan["p"] == {"0": ["0-0", str(end), world.fences[first]]}
    assert shared.read_plan() == plan
    assert shared.get("planned") == 7


def test_plan_is_bounded_by_events_at_a_point_of_the_index(world, planner, shared) -> None:
    shared.set("events_max", 2 * 3_000)
    first = world.partitions[0]
    for _ in range(20):
        world.append(first, *[one(a=n) for n in range(500)])
    _, end = ranges(planner.next_batch(1))["0"]
    read = EventStore.connect(world.url).read(first, START, Offset.parse(end), "")
    assert sum(map(len, read)) == 3_000


def test_plan_is_bounded_by_bytes(world, planner) -> None:
    first = world.partitions[0]
    large = Packed((b"json", b"x" * 2**20), 1, 2**20)
    for _ in range(10):
        world.append(first, *[large] * 4)
    _, end = ranges(planner.next_batch(1))["0"]
    read = EventStore.connect(world.url).read(first, START, Offset.parse(end), "")
    assert sum(map(len, read)) == BATCH_BYTES_MAX // 2 // 2**20


def test_in_a_redis_cluster_nothing_is_planned_that_no_replica_has(
    cluster: Cluster, group_name: str, shared: Shared, tmp_path: Path
) -> None:
    """Else its commit, on another node, might outlive it, and it be appended and applied again."""
    world = SparkWorld(cluster.url, group_name, tmp_path)
    options = {"redis_url": world.url, "group": world.name, "member": "m1", "tasks": "2"}
    planner = Planner({**options, "folder": str(tmp_path), "stream": world.name})
    first = world.partitions[0]
    with cluster.without_replicas(StreamKeys(first.stream).entries(first.number)):
        end = world.append(first, one(a=1))
        assert planner.next_batch(1) is None
    assert ranges(planner.next_batch(1)) == {"0": ("0-0", str(end))}


def test_what_others_hold_is_not_planned(world, planner) -> None:
    first, second = world.partitions
    world.append(first, one(a=1))
    world.append(second, one(a=1))
    world.take_over(first)
    assert list(ranges(planner.next_batch(1))) == ["1"]


def test_what_was_answered_fenced_is_planned_under_a_higher_fence_only(
    world, planner, shared
) -> None:
    first = world.partitions[0]
    world.append(first, one(a=1))
    shared.hold_back([(str(first), world.fences[first])], "keep")
    assert planner.next_batch(1) is None
    world.store.run(agent_side.release("m1", {first: world.store.owned("m1")[first]}))
    world.give("m1", [first])
    assert list(ranges(planner.next_batch(1))) == ["0"]


def test_a_process_that_was_replaced_under_its_instance_name_plans_nothing(
    world, shared, tmp_path
) -> None:
    world.append(world.partitions[0], one(a=1))
    options = {"redis_url": world.url, "group": world.name, "member": "m1", "tasks": "2"}
    places = {"folder": str(tmp_path), "stream": world.name}
    assert Planner({**options, **places, "process": "before"}).next_batch(1) is None


def test_what_is_paused_is_not_planned_until_it_goes_on(world, planner) -> None:
    first, second = world.partitions
    world.append(first, one(a=1))
    world.append(second, one(a=1))
    pause = Pause(actor="ann", reason="", at_ms=1)
    world.world.run(set_pauses(Pauses(version=1, partitions={first: pause}), 0))
    assert list(ranges(planner.next_batch(1))) == ["1"]
    assert world.world.run(pause_state([first]))[0].state is PauseState.PAUSED
    world.world.run(set_pauses(Pauses(version=2), 1))
    assert list(ranges(planner.next_batch(2))) == ["0", "1"]


@pytest.mark.parametrize("fact", [("lease_end_ms", 0), ("stopping", 1)])
def test_nothing_is_planned_any_more(world, planner, shared, fact) -> None:
    world.append(world.partitions[0], one(a=1))
    shared.set(*fact)
    assert planner.next_batch(1) is None


def test_few_events_are_read_in_one_task_once_their_number_is_known(world, planner) -> None:
    first = world.partitions[0]
    fence = world.fences[first]
    end = world.append(first, one(a=1))
    assert planner.next_batch(1)["tasks"] == 2  # how many lie before is not known yet
    assert world.world.commit(first, fence, START, end, member_id="m1").applied
    world.append(first, one(a=2), one(a=3))
    assert planner.next_batch(2)["tasks"] == 1


def test_entries_that_no_library_counted_are_probed(world, planner) -> None:
    first = world.partitions[0]
    for n in range(1_500):
        world.store.door.ask("XADD", f"{{{first}}}", f"{n + 1}-0", "a", n)
    assert ranges(planner.next_batch(1))["0"] == ("0-0", "1500-0")
    assert EVENTS_PER_RANGE_MIN == 1_000


def test_foreign_entries_above_counted_ones_are_read_too(world, planner) -> None:
    first = world.partitions[0]
    world.append(first, *[one(a=n) for n in range(1_200)])
    world.store.door.ask("XADD", f"{{{first}}}", "*", "a", "1")
    _, middle = ranges(planner.next_batch(1))["0"]
    fence = world.fences[first]
    answer = world.world.commit(first, fence, START, Offset.parse(middle), member_id="m1")
    assert answer.applied
    _, end = ranges(planner.next_batch(2))["0"]
    assert Offset.parse(end) == world.end(first)


def test_redis_that_does_not_answer_gives_no_plan(world, shared, tmp_path: Path) -> None:
    options = {"redis_url": "redis://127.0.0.1:1/0", "group": world.name, "member": "m1"}
    planner = Planner({**options, "tasks": "2", "folder": str(tmp_path), "stream": world.name})
    assert planner.next_batch(1) is None


def reader_of(world: SparkWorld, folder: Path) -> EvenkeelReader:
    return EvenkeelReader(
        {"redis_url": world.url, "group": world.name, "member": "m1", "stream": world.name}
        | {"folder": str(folder), "run": "r", "tasks": "2"},
        StructType().add("a", "long").add("partition", "integer"),
    )


def test_warm_up_is_planned_before_anything_else_and_leaves_nothing(
    world, planner, shared, tmp_path
) -> None:
    first = world.partitions[0]
    world.append(first, *[one(a=n) for n in range(ENTRIES + 3)], raw(b"json", b"{"))
    reader = reader_of(world, tmp_path)
    for left, tasks in ((2, 2), (1, 1)):
        shared.set("warm_up", left)
        plan = planner.next_batch(7)
        assert (plan["n"], plan["warm_up"], plan["tasks"]) == (7, left, tasks)
        assert list(ranges(plan)) == ["0"], "the second has no events"
        parts = reader.partitions(reader.initialOffset(), plan)
        assert len(parts) == tasks
        rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
        assert [row["a"] for row in rows] == list(range(4, ENTRIES + 3)), "the newest, once"
    assert world.store.door.ask("EXISTS", GroupKeys(world.name).counts("m1")) == 0
    assert world.committed() == [START, START]
    assert world.dead_letters(first) == []
    shared.set("stopping", 1)
    assert planner.next_batch(8) is None
    shared.set("stopping", 0)
    shared.set("warm_up", 0)
    assert list(ranges(planner.next_batch(9))) == ["0"]


def test_warm_up_on_an_empty_stream_reads_no_event_in_every_task(
    world, planner, shared, tmp_path
) -> None:
    shared.set("warm_up", 2)
    plan = planner.next_batch(1)
    assert plan["p"] == {}
    reader = reader_of(world, tmp_path)
    parts = reader.partitions(reader.initialOffset(), plan)
    assert [batch.num_rows for part in parts for batch in reader.read(part)] == [0, 0]


def test_warm_up_without_redis_has_no_events(shared, tmp_path: Path) -> None:
    options = {"redis_url": "redis://127.0.0.1:1/0", "group": "g", "member": "m1", "stream": "s"}
    planner = Planner({**options, "tasks": "2", "folder": str(tmp_path)})
    shared.set("warm_up", 1)
    assert planner.next_batch(1) == {**NOTHING, "n": 1, "warm_up": 1}


def warmed_up(*times: float, tasks: int = 2) -> list[int]:
    """What is left after each batch."""
    warm_up = WarmUp()
    return [warm_up.done(tasks_of(warm_up.left, tasks), took_s) for took_s in times]


def test_warm_up_ends_when_batches_of_neither_kind_get_quicker() -> None:
    assert warmed_up(5.0, 3.0, 2.0, 1.0, 1.9, 1.0) == [11, 10, 9, 8, 7, 0]
    assert warmed_up(1.0, 1.0, 1.0, 1.0) == [11, 10, 9, 0]


def test_warm_up_goes_on_while_batches_get_quicker_and_has_an_end() -> None:
    times = [100 * 0.7**n for n in range(BATCHES_MAX)]
    assert warmed_up(*times)[-2:] == [1, 0]


def test_warm_up_that_fails_again_and_again_is_over() -> None:
    warm_up = WarmUp()
    assert [warm_up.failed(), warm_up.done(2, 1.0), warm_up.failed()] == [11, 10, 9]
    assert warm_up.failed() == 0


def test_warm_up_of_a_single_core_has_one_kind_of_batch() -> None:
    assert warmed_up(1.0, 1.0, tasks=1) == [11, 0]


# --- suspects, and what is skipped ---


def suspect(world: SparkWorld, end: Offset, alone: int = 0) -> None:
    first = world.partitions[0]
    part = Range(first, START, end, world.fences[first])
    assert world.store.run(crashes.crash("it ended", alone, [part])) == 1


def test_a_suspect_is_planned_alone_and_half_as_far_after_each_crash(world, planner) -> None:
    first, second = world.partitions
    end = world.append(first, *[one(a=n) for n in range(8)])
    for _ in range(3):
        suspect(world, end)
    plan = planner.next_batch(1)
    assert (ranges(plan), plan["alone"]) == ({"0": ("0-0", str(end))}, 8)
    suspect(world, end, alone=8)
    other = world.append(second, one(a=1))
    assert ranges(planner.next_batch(2)) == {"1": ("0-0", str(other))}  # others in between
    plan = planner.next_batch(3)
    assert (list(plan["p"]), plan["alone"]) == (["0"], 4)
    for alone in (4, 2, 1):
        suspect(world, Offset.parse(plan["p"]["0"][1]), alone)
    assert ranges(planner.next_batch(4)) == {"1": ("0-0", str(other))}


def test_what_is_halted_is_told_to_the_driver(world, planner, shared) -> None:
    first = world.partitions[0]
    end = world.append(first, one(a=1))
    for alone in (0, 0, 0, 1):
        suspect(world, end, alone)
    assert planner.next_batch(1) is None
    (halted,) = shared.troubles().halted
    assert (halted.partition, halted.reason, halted.entry) == (first, HaltReason.CRASH, str(end))


def test_a_malformed_event_that_a_partition_halts_at_can_be_skipped(world, planner, shared) -> None:
    first = world.partitions[0]
    end = world.append(first, raw(b"json", b"{"))
    shared.hold_back([(str(first), world.fences[first])], "halt")
    assert planner.next_batch(1) is None
    skip = Skip(entry=end, actor="ann", reason="no use")
    assert world.world.run(crashes.skip(first, skip))
    plan = planner.next_batch(2)
    assert (ranges(plan), plan["skip"]) == ({"0": ("0-0", str(end))}, "skipped by ann: no use")


# --- letters that are replayed ---


def letters_asked(world: SparkWorld, end: Offset, count: int = 2) -> list[list[str]]:
    """Of the first partition, which is committed up to `end`; as they stand in a plan."""
    first = world.partitions[0]
    dead = [DeadLetter("bad", str(end), n, b"{") for n in range(count)]
    world.world.commit(first, world.fences[first], START, end, "m1", dead=dead)
    kept = world.store.door.ask("XRANGE", world.store.keys.dead(first), "-", "+")
    ids = [Offset.parse(letter.decode()) for letter, _ in kept]
    world.world.run(dead_letters.replay([(first, one) for one in ids], "ann"))
    return [[str(one), "ann"] for one in ids]


def make_room(world: SparkWorld) -> None:
    key = StreamKeys(world.name).entries(0)
    world.store.door.run(ScriptCall("make_room", [key], ["2"]))


def test_letters_are_replayed_alone_where_no_entry_is_or_will_be(world, planner) -> None:
    end = world.append(world.partitions[0], one(a=1))
    asked = letters_asked(world, end)
    assert planner.next_batch(1) is None  # ids end there: the next entry may have the next one
    make_room(world)
    plan = planner.next_batch(2)
    assert ranges(plan) == {"0": (str(end), str(end.next))}
    assert (plan["replay"], plan["tasks"], plan["halt"]) == (asked, 1, False)
    world.append(world.partitions[0], one(a=2))
    assert planner.next_batch(3)["p"] == plan["p"]


def test_entries_of_their_partition_wait_for_letters_and_those_of_others_have_turns(
    world, planner
) -> None:
    first, second = world.partitions
    asked = letters_asked(world, world.append(first, one(a=1)))
    make_room(world)
    world.append(first, one(a=2))
    world.append(second, one(a=3))
    plans = [planner.next_batch(n) for n in range(1, 5)]
    assert [(list(p["p"]), p.get("replay", [])) for p in plans] == [(["0"], asked), (["1"], [])] * 2


def test_entries_with_the_very_next_ids_are_read_before_letters(world, planner) -> None:
    key = StreamKeys(world.name).entries(0)
    for entry in ("5-0", "5-1", "5-2", "5-7", "9-0"):
        world.store.door.ask("XADD", key, entry, "json", "{}")
    asked = letters_asked(world, Offset(5, 0))
    assert ranges(planner.next_batch(1)) == {"0": ("5-0", "5-2")}
    first = world.partitions[0]
    world.world.commit(first, world.fences[first], Offset(5, 0), Offset(5, 2), "m1")
    plan = planner.next_batch(2)
    assert (ranges(plan), plan["replay"]) == ({"0": ("5-2", "5-3")}, asked)


def test_entries_do_not_wait_for_letters_that_end_consumers(world, planner) -> None:
    first = world.partitions[0]
    end = world.append(first, one(a=1))
    letters_asked(world, end)
    make_room(world)
    last = world.append(first, one(a=2))
    plan = planner.next_batch(1)
    part = Range(first, end, end.next, world.fences[first])
    world.store.run(crashes.crash("it ended", 0, [part], len(plan["replay"])))
    found = [ranges(planner.next_batch(n)) for n in (2, 3)]
    assert found == [{"0": (str(end), str(last))}, {"0": (str(end), str(end.next))}]


# --- batches that wait ---


@pytest.fixture
def waiting(world, planner, shared) -> SparkWorld:
    """After a batch of the first partition, with an event that may wait for hours."""
    first = world.partitions[0]
    shared.set("latency_goal_ms", 10_000_000)
    end = world.append(first, one(a=1))
    assert planner.next_batch(1) is not None
    fence = world.fences[first]
    assert world.world.commit(first, fence, START, end, member_id="m1").applied
    world.append(first, one(a=2))
    return world


def test_few_events_wait_and_a_revoke_does_not(waiting, planner, shared) -> None:
    first = waiting.partitions[0]
    assert planner.next_batch(2) is None
    change = StateChange(first, waiting.fences[first], HeldState.RUNNING, HeldState.REVOKING)
    assert waiting.store.run(agent_side.set_state("m1", [change])) == (True,)
    assert planner.next_batch(2) is None
    assert waiting.store.owned("m1")[first].state is HeldState.REVOKED


def test_a_pause_does_not_wait_for_events_that_do(waiting, planner) -> None:
    first = waiting.partitions[0]
    pause = Pause(actor="ann", reason="", at_ms=1)
    waiting.world.run(set_pauses(Pauses(version=1, partitions={first: pause}), 0))
    assert planner.next_batch(2) is None
    assert waiting.world.run(pause_state([first]))[0].state is PauseState.PAUSED


def test_backlog_ends_the_wait(waiting, planner, shared) -> None:
    first = waiting.partitions[0]
    for _ in range(2):
        assert planner.next_batch(2) is None  # what was counted is known on
    end = waiting.append(first, *[one(a=n) for n in range(1_200)])
    plan = planner.next_batch(2)
    assert (ranges(plan)["0"][1], plan["tasks"]) == (str(end), 1)


def test_a_goal_of_nothing_ends_the_wait(waiting, planner, shared) -> None:
    assert planner.next_batch(2) is None
    shared.set("latency_goal_ms", 0)
    assert list(ranges(planner.next_batch(2))) == ["0"]


def test_suspects_and_others_do_not_wait_for_each_other(waiting, planner) -> None:
    second = waiting.partitions[1]
    end = waiting.append(second, one(a=1))
    part = Range(second, START, end, waiting.fences[second])
    for _ in range(3):
        assert waiting.store.run(crashes.crash("it ended", 0, [part])) == 1
    assert planner.next_batch(2)["alone"] == 1
    assert list(ranges(planner.next_batch(3))) == ["0"]


def test_entries_that_nobody_counted_wait_too(world, planner, shared) -> None:
    first = world.partitions[0]
    shared.set("latency_goal_ms", 10_000_000)
    world.store.door.ask("XADD", f"{{{first}}}", "1-0", "a", 1)
    assert planner.next_batch(1)["tasks"] == 2  # an entry may have many events
    fence = world.fences[first]
    done = world.world.commit(first, fence, START, Offset.parse("1-0"), member_id="m1")
    assert done.applied
    world.store.door.ask("XADD", f"{{{first}}}", "2-0", "a", 1)
    assert planner.next_batch(2) is None
