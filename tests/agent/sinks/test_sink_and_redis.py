"""A SQL sink and Redis through crashes, pauses and lost replies: nothing lost, nothing twice.

A real database, the scripts on the fake Redis, no Spark.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.spark.commit import Committer, LeaseOver, PartitionChanges
from agent.spark.planner import Planner
from agent.spark.ranges import range_of
from agent.spark.reading import Counted
from agent.spark.shared import Shared
from agent.spark.sink_effects import DeliveredEffects, SqlEffects
from agent.spark.sink_start import SinkStart, hand_over
from agent.spark.sql_sink import (
    AtLeastOnceSink,
    Delivery,
    SinkDoor,
    SinkResult,
    SinkUnavailable,
    SqlSink,
    sqlite_sink,
)
from agent.store.events import Packed
from agent.store.group import GroupStore
from assignment.scripts import agent_side, dead_letters
from assignment.scripts.agent_side import CommitResult
from assignment.scripts.dead_letters import DeadLetter
from assignment.troubles import HaltReason
from assignment.types import START, Offset, Range
from tests.agent.sinks.sink_world import (
    NOBODY_LISTENS,
    Consumer,
    Database,
    committed,
    delivery,
    door_to_nobody,
    hand_to_b,
    numbers,
    planned,
    write_rows,
)
from tests.contract.world import P0, P1, World, offset
from tests.e2e.spark_world import SparkWorld

# --- the sink and Redis ---------------------------------------------------------------------------


def test_batches_move_the_sink_and_redis_together(
    world: World, database: Database, tmp_path: Path
) -> None:
    world.running("a", P0)
    consumer = Consumer(world, database, "a", tmp_path)
    for to in (3, 8):
        (one,) = consumer.next_batch()
        assert consumer.commit(one, to).applied == {P0: to - one.committed.ms}
    assert (committed(world), database.events()) == (offset(8), numbers(1, 8))
    assert world.read().applied[P0].total == 8
    assert world.door.ask("XRANGE", world.keys.changelog(P0), "-", "+") == []


def test_crash_between_the_sink_and_redis_loses_and_doubles_nothing(
    world: World, database: Database, tmp_path: Path
) -> None:
    fence = world.running("a", P0)
    first = Consumer(world, database, "a", tmp_path)
    (one,) = first.next_batch()
    assert first.door.apply(delivery(one.fence, 0, 5)) is SinkResult.APPLIED  # and it dies here
    assert committed(world) == START

    restarted = Consumer(world, database, "a", tmp_path)  # under the same fence
    assert restarted.next_batch() == [planned(fence, 5, 5)]
    assert committed(world) == offset(5)
    restarted.commit(planned(fence, 5, 5), 9)
    assert (committed(world), database.events()) == (offset(9), numbers(1, 9))
    assert world.read().applied[P0].total == 9


def test_crash_between_the_sink_and_redis_is_healed_by_the_next_owner(
    world: World, database: Database, tmp_path: Path
) -> None:
    fence = world.running("a", P0)
    (one,) = Consumer(world, database, "a", tmp_path).next_batch()
    database.door().apply(delivery(one.fence, 0, 5))
    fence_b = hand_to_b(world, fence)
    b = Consumer(world, database, "b", tmp_path)
    assert b.next_batch() == [planned(fence_b, 5, 5)]
    b.commit(planned(fence_b, 5, 5), 7)
    assert (committed(world), database.events()) == (offset(7), numbers(1, 7))


def test_letters_that_only_the_sink_knows_of_are_settled_by_the_next_owner(
    world: World, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the two cannot be read again: it is a letter anew, though the commit never came."""
    fence = world.running("a", P0)
    first = Consumer(world, database, "a", tmp_path)
    first.commit(first.next_batch()[0], 5)
    for entry in ("1-0", "2-0"):
        fields = {"reason": "bad", "entry": entry, "index": "0", "raw": "{", "fence": str(fence)}
        flat = [text for pair in fields.items() for text in pair]
        world.door.ask("XADD", world.keys.dead(P0), "*", *flat)
    kept = [Offset.parse(i.decode()) for i, _ in world.door.ask(*letters_of(world))]
    world.run(dead_letters.replay([(P0, one) for one in kept], "ann"))

    (start,) = first.start.begin(world.next_batch(), 1)
    one = range_of(start, start.committed.next)
    again = DeadLetter("again", "2-0", 0, b"{")
    counted = Counted(0, str(one.to_offset), dead=[again], lowest="1-0")
    changes = {0: PartitionChanges([("of a letter", {"amount": 1})])}

    def died(*_: object) -> None:
        raise RuntimeError("the process died")

    with monkeypatch.context() as patch:
        patch.setattr(GroupStore, "commit_many", died)
        with pytest.raises(RuntimeError):
            first.committer.commit([(one, counted)], changes, kept)
    assert (committed(world), len(world.door.ask(*letters_of(world)))) == (offset(5), 2)

    hand_to_b(world, fence)
    (begun,) = Consumer(world, database, "b", tmp_path).next_batch()
    assert (begun.committed, begun.replays) == (offset(5).next, None)
    assert database.events() == sorted([*numbers(1, 5), "of a letter"])
    ((_, fields_of_it),) = world.door.ask(*letters_of(world))
    assert b"again" in fields_of_it
    assert world.next_batch("b")[0].replays is None


def letters_of(world: World) -> tuple[str, ...]:
    return "XRANGE", world.keys.dead(P0), "-", "+"


def test_paused_owner_is_refused_after_another_opened_the_sink(
    world: World, database: Database, tmp_path: Path
) -> None:
    fence = world.running("a", P0)
    paused = Consumer(world, database, "a", tmp_path)
    (one,) = paused.next_batch()
    b = Consumer(world, database, "b", tmp_path)
    fence_b = hand_to_b(world, fence)
    assert b.next_batch() == [planned(fence_b, 0)]
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
    (one,) = paused.next_batch()
    paused.door.apply(delivery(one.fence, 0, 5))
    fence_b = hand_to_b(world, fence)
    b = Consumer(world, database, "b", tmp_path)
    assert b.next_batch() == [planned(fence_b, 5, 5)]
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
    assert a.next_batch() == []
    assert a.start.troubles.why == (f"flights:0: the sink was opened under fence {fence + 1}",)


def test_redis_ahead_of_the_sink_halts_that_partition_and_says_so(
    world: World, database: Database, tmp_path: Path
) -> None:
    fence, other = world.running("a", P0), world.running("a", P1)
    world.commit(P0, fence, START, offset(6), changelog=False)
    a = Consumer(world, database, "a", tmp_path)
    assert a.next_batch() == [planned(other, 0, partition=P1)]
    (halted,) = a.start.troubles.halted
    assert (halted.partition, halted.reason, halted.entry) == (P0, HaltReason.SINK, "")
    assert halted.why == "Redis is at 6-0, ahead of its sink at 0-0"
    assert (committed(world), database.events()) == (offset(6), [])


def test_redis_that_lost_writes_is_brought_to_the_sink(
    world: World, database: Database, tmp_path: Path
) -> None:
    fence = world.running("a", P0)
    a = Consumer(world, database, "a", tmp_path)
    for to in (3, 8):
        (one,) = a.next_batch()
        a.commit(one, to)
    world.door.ask("DEL", world.keys.offsets, world.keys.applied)  # as before the first commit
    assert a.next_batch() == [planned(fence, 8, 8)]
    assert (committed(world), world.read().applied[P0].total) == (offset(8), 8)


def test_redis_behind_in_the_middle_of_a_tenure_is_seen_with_the_next_plan(
    world: World, database: Database, tmp_path: Path
) -> None:
    """The lease was over before Redis answered: the batch was given up with its effects stored."""
    world.running("a", P0)
    a = Consumer(world, database, "a", tmp_path)
    (one,) = a.next_batch()
    a.door.apply(delivery(one.fence, 0, 5))
    outcome = a.commit(one, 7)  # planned before that was known
    assert (outcome.applied, outcome.moved) == ({}, [P0])
    (again,) = a.next_batch()
    assert again.committed == offset(5)
    a.commit(again, 7)
    assert (committed(world), database.events()) == (offset(7), numbers(1, 7))


def test_idle_plans_do_not_ask_the_sink(world: World, database: Database, tmp_path: Path) -> None:
    world.running("a", P0)
    a = Consumer(world, database, "a", tmp_path)
    first = a.next_batch()
    a.start.door.positions = None  # type: ignore[assignment,method-assign]
    assert a.next_batch() == first


def test_plan_is_empty_while_the_database_is_away(world: World, tmp_path: Path) -> None:
    now = [100.0]
    world.running("a", P0)
    door = door_to_nobody()
    start = SinkStart(door, world.store, "a", clock=lambda: now[0])
    assert start.begin(world.store.run(agent_side.next_batch("a")), 0) == []
    assert start.troubles.why == (f"the sink's database refuses: {NOBODY_LISTENS}",)

    back = Database(sqlite_sink(str(tmp_path / "sink.sqlite3"), write_rows))
    start.door = back.door()
    assert (
        start.begin(world.store.run(agent_side.next_batch("a")), 0) == []
    )  # not asked again at once
    now[0] += 10
    assert [p.committed for p in start.begin(world.store.run(agent_side.next_batch("a")), 0)] == [
        START
    ]
    assert not any(start.troubles)


def test_lease_that_ends_while_the_database_is_away_gives_the_batch_up(database: Database) -> None:
    answers = iter([True, True, False])
    door = door_to_nobody()
    effects = SqlEffects(door, lambda: next(answers))
    one = Range(P0, START, offset(3), 7)
    with pytest.raises(LeaseOver):
        effects.prepare(one, Counted(3, "3-0"), START, PartitionChanges())


def test_database_that_stays_away_ends_the_consumer() -> None:
    clock = iter([0.0, 1.0, 1_000.0])
    door = door_to_nobody()
    effects = SqlEffects(door, lambda: True, clock=lambda: next(clock))
    with pytest.raises(SinkUnavailable):
        effects.prepare(
            Range(P0, START, offset(3), 7), Counted(3, "3-0"), START, PartitionChanges()
        )


def test_planner_process_gets_the_sink_through_the_folder(
    world: World, database: Database, tmp_path: Path
) -> None:
    world.running("a", P0)
    assert SinkStart.handed_over(tmp_path, world.store, "a") is None
    hand_over(database.sink, tmp_path)
    start = SinkStart.handed_over(tmp_path, world.store, "a")
    assert start is not None
    assert [p.committed for p in start.begin(world.store.run(agent_side.next_batch("a")), 0)] == [
        START
    ]


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
    plan = Planner({**places, "stream": group_name, "tasks": "1"}).next_batch(1)
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
