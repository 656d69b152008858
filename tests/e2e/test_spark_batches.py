"""One consumer on real Spark, Redis and locks: what it reads, commits and leaves alone."""

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from agent.spark.commit import Committer
from agent.spark.pipeline import Pipeline
from agent.spark.runner import Consumer
from agent.store.door import StoreUnavailable
from assignment.errors import InvalidInput
from assignment.scripts import agent_side, crashes
from assignment.scripts.crashes import Skip
from assignment.troubles import Halted, read_trouble
from tests.e2e.spark_world import SparkWorld, arrow, fields, lines, one, raw, until

pytestmark = pytest.mark.spark


def summed(events: DataFrame) -> DataFrame:
    return events.groupBy("partition", "key").agg(
        F.sum("amount").alias("amount"), F.collect_list("amount").alias("ids")
    )


def add(old: Any, change: Mapping[str, Any]) -> Any:
    return (old or 0) + change["amount"]


SUMS = Pipeline(name="sums", schema="key string, amount bigint", changes=summed, merge=add)


def test_events_of_every_form_are_counted_once(world: SparkWorld, session: SparkSession) -> None:
    first, second = world.partitions
    world.append(first, one(key="a", amount=1), arrow({"key": "a", "amount": 2}))
    world.append(second, lines({"key": "b", "amount": 4}, {"key": "c", "amount": 8}))
    with world.consuming(SUMS, session):
        until(world.all_committed, "the first events")
        world.append(first, fields(key="a", amount="16"), one(key="b", amount=32, more=True))
        until(world.all_committed, "the second events")
        until(lambda: (h := world.health()) and h.rows == 6 and h.state == "ready", "health")
    assert world.state(first) == {"a": 19, "b": 32}
    assert world.state(second) == {"b": 4, "c": 8}
    assert world.local_state(first) == (world.end(first), world.state(first))
    assert [e.events for e in world.changelog(second)] == [2]
    assert sum(e.events for e in world.changelog(first)) == 4
    assert world.health().state == "dead"


def test_malformed_events_ride_in_the_commit(world: SparkWorld, session: SparkSession) -> None:
    first, second = world.partitions
    world.append(
        first,
        one(key="a", amount=1),
        raw(b"json", b'{"key": "a", "amount": '),
        one(key="a", amount="many"),
        raw(b"json", b'{"key":"x","amount":1}\n{"key":"y","amount":1}'),
        raw(b"json", b" "),
        raw(b"arrow", b"not arrow"),
        lines({"key": "a", "amount": 2}, b"[]", {"key": "b", "amount": 4}),
        fields(key="a", amount="x"),
        one(key="b", amount=8),
    )
    world.append(second, raw(b"json", b"{"))
    with world.consuming(SUMS, session):
        until(world.all_committed, "everything")
        until(lambda: (h := world.health()) and h.dead_letters == 8, "health")
        letters = world.dead_letters(first)
        world.replay(first)
        until(lambda: not world.replays(first), "they are read again, in vain")
    assert world.state(first) == {"a": 3, "b": 12}
    again = world.dead_letters(first)
    assert [(x.entry_id, x.index, x.raw) for x in again] == [
        (x.entry_id, x.index, x.raw) for x in letters
    ]
    assert {x.reason.partition(":")[0] for x in again} == {"replayed by ann"}
    assert [letter.index for letter in letters] == [0, 0, 0, 0, 0, 1, 0]
    assert letters[0].raw == b'{"key": "a", "amount": '
    assert "not an event" in letters[1].reason
    assert "not an Arrow stream" in letters[4].reason
    assert sum(e.events for e in world.changelog(first)) == 11
    assert [(e.events, e.changes) for e in world.changelog(second)] == [(1, b"")]


def test_policy_halt_stops_before_the_malformed_event(
    world: SparkWorld, session: SparkSession
) -> None:
    first, second = world.partitions
    link = world.link()
    link.settings = replace(world.settings, dead_letters="halt")
    good = world.append(first, one(key="a", amount=1))
    world.append(first, raw(b"json", b"{"), one(key="a", amount=2))
    with world.consuming(SUMS, session, link):
        until(lambda: world.committed()[0] == good, "what is before it")
        until(lambda: (h := world.health()) and h.halted, "health says where")
        world.append(second, one(key="b", amount=4))
        until(lambda: world.committed()[1] == world.end(second), "the other partition goes on")
        assert world.committed()[0] == good
        link.settings = world.settings
        until(world.all_committed, "it goes on once the policy is keep")
    assert world.state(first) == {"a": 3}
    assert len(world.dead_letters(first)) == 1


def test_fenced_partition_is_dropped_while_the_others_commit(
    world: SparkWorld, session: SparkSession
) -> None:
    first, second = world.partitions
    taken: list[int] = []

    def lose_one(events: DataFrame) -> DataFrame:
        changed = summed(events)
        if not taken and set(world.committed()) != {(0, 0)}:
            world.take_over(first)  # while the batch is in hand
            taken.append(1)
        return changed

    with world.consuming(replace(SUMS, changes=lose_one), session):
        start = world.append(first, one(key="a", amount=1))
        until(lambda: world.committed()[0] == start, "the first batch")
        world.append(first, one(key="a", amount=2))
        until(lambda: taken, "the take-over")
        world.append(second, one(key="b", amount=4))
        until(lambda: world.committed()[1] == world.end(second), "the other partition")
    assert world.committed()[0] == start
    assert world.state(first) == {"a": 1}
    assert world.health().refused_commits <= 1
    world.fences.pop(first)


def test_pipeline_that_reads_nothing_still_commits(
    world: SparkWorld, session: SparkSession
) -> None:
    def none(events: DataFrame) -> DataFrame:
        return summed(events.where("false"))

    world.append(world.partitions[0], one(key="a", amount=1), one(key="a", amount=2))
    with world.consuming(replace(SUMS, changes=none), session):
        until(world.all_committed, "a range without a changed key")
    assert [(e.events, e.changes) for e in world.changelog(world.partitions[0])] == [(2, b"")]


@pytest.mark.parametrize("when", ["before", "after"])
def test_batch_that_died_around_its_commit_is_applied_once(
    world: SparkWorld, session: SparkSession, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new consumer has a new checkpoint: only what Redis says counts."""
    first = world.partitions[0]
    world.append(first, one(key="a", amount=1))
    with world.consuming(SUMS, session) as consumer:
        until(world.all_committed, "the first batch")
        commit, died = Committer.commit, []

        def dying(*arguments: Any) -> Any:
            if not died:
                died.append(1)
                if when == "after":
                    consumer._effects.applied = lambda *_: None  # LMDB never hears of it
                    commit(*arguments)
                raise RuntimeError("the process died")
            return commit(*arguments)

        monkeypatch.setattr(Committer, "commit", dying)
        world.append(first, one(key="a", amount=2))
        until(lambda: died, "the death")
        until(world.all_committed, "the batch again")
        consumer._effects.__dict__.pop("applied", None)
        world.append(first, one(key="a", amount=4))
        until(world.all_committed, "a batch after it")
    assert world.state(first) == {"a": 7}
    assert sum(e.events for e in world.changelog(first)) == 3
    offset, state = world.local_state(first)
    assert (offset, state) == (world.end(first), {"a": 7})


def test_redis_that_answers_late_ends_no_query(world: SparkWorld, session: SparkSession) -> None:
    """Once without having counted, once with the reply lost: what was counted is read again."""
    first = world.partitions[0]
    with world.consuming(SUMS, session) as consumer:
        world.append(first, one(key="a", amount=1))
        until(world.all_committed, "the first batch")
        run, take, troubles = consumer._run, consumer._events.take_counts, ["before", "after"]

        def taken(*arguments: Any) -> Any:
            trouble = troubles.pop(0) if troubles else ""
            answer = {} if trouble == "before" else take(*arguments)
            if trouble:
                raise StoreUnavailable("timed out")
            return answer

        consumer._events.take_counts = taken
        world.append(first, one(key="a", amount=2))
        until(world.all_committed, "the batch")
        assert not troubles
        assert consumer._run == run
    assert world.state(first) == {"a": 3}
    assert sum(e.events for e in world.changelog(first)) == 2


def test_nothing_is_planned_when_the_lease_is_over(
    world: SparkWorld, session: SparkSession
) -> None:
    link = world.link()
    with world.consuming(SUMS, session, link) as consumer:
        world.append(world.partitions[0], one(key="a", amount=1))
        until(world.all_committed, "the first batch")
        link.lease_end_ms = 0
        shared = consumer._shared
        until(lambda: shared.get("lease_end_ms") == 0, "the planner knows")
        polls = shared.get("polls")
        until(lambda: shared.get("polls") > polls + 1, "a look that began before it is over")
        world.append(world.partitions[0], one(key="a", amount=2))
        polls = shared.get("polls")
        until(lambda: shared.get("polls") > polls + 3, "some looks")
        assert not world.all_committed()
        link.lease_end_ms = 2**62
        until(world.all_committed, "after the next renew")
    assert world.state(world.partitions[0]) == {"a": 3}


def test_entries_of_a_foreign_producer_are_read(world: SparkWorld, session: SparkSession) -> None:
    key = "{" + str(world.partitions[0]) + "}"
    for n in range(20):
        world.store.door.ask("XADD", key, "*", "key", f"k{n % 3}", "amount", str(n))
    with world.consuming(SUMS, session):
        until(world.all_committed, "entries that no library counted")
    assert sum(world.state(world.partitions[0]).values()) == sum(range(20))


def test_draining_partition_is_left_out_and_said_drained(
    world: SparkWorld, session: SparkSession
) -> None:
    from assignment.scripts.agent_side import StateChange
    from assignment.types import HeldState

    first = world.partitions[0]
    with world.consuming(SUMS, session):
        world.append(first, one(key="a", amount=1))
        until(world.all_committed, "the first batch")
        change = StateChange(first, world.fences[first], HeldState.RUNNING, HeldState.REVOKING)
        assert world.store.run(agent_side.set_state("m1", [change])) == (True,)
        until(
            lambda: world.store.owned("m1")[first].state is HeldState.REVOKED, "revoked while idle"
        )


def ends_at_poison(events: DataFrame) -> DataFrame:
    """A pipeline whose Python worker dies at one event, as native code does."""

    @F.udf("string")
    def passed(key: str) -> str:
        if key == "poison":
            os._exit(13)
        return key

    return SUMS.changes(events.withColumn("key", passed("key")))


def test_event_that_ends_its_process_halts_its_partition_and_is_skipped(
    world: SparkWorld, session: SparkSession
) -> None:
    """The warm-up reads it too: it keeps nobody from being ready, whosever partition it is in."""
    first, second = world.partitions
    for n in range(4):
        before = world.append(first, *[one(key="a", amount=1)] * (n + 1))
    poison = world.append(first, one(key="poison", amount=1))
    world.append(first, one(key="a", amount=1), one(key="b", amount=1))
    world.append(second, one(key="c", amount=1))
    with world.consuming(replace(SUMS, changes=ends_at_poison), session):
        (halted,) = until(lambda: (h := world.health()) and h.halted, "the event is found")
        assert read_trouble(Halted, halted).partition == first
        assert (halted["reason"], halted["entry"]) == ("crash", str(poison))
        assert world.committed() == [before, world.end(second)]
        world.append(second, one(key="c", amount=1))
        until(lambda: world.committed()[1] == world.end(second), "the other partition goes on")
        skip = Skip(entry=poison, actor="operator", reason="worker dies")
        assert world.world.run(crashes.skip(first, skip))
        until(world.all_committed, "it goes on behind the event")
        until(lambda: not world.health().halted, "it is said")
    assert world.state(first) == {"a": 11, "b": 1}
    assert world.state(second) == {"c": 2}
    assert sum(entry.events for entry in world.changelog(first)) == 13
    (letter,) = world.dead_letters(first)
    assert letter.reason == "skipped by operator: worker dies"
    assert (letter.entry_id, letter.index, b"poison" in letter.raw) == (str(poison), None, True)
    world.replay(first)
    before = world.committed()[0]
    with world.consuming(SUMS, session):
        until(lambda: not world.replays(first), "it is replayed by a pipeline that can")
        world.append(first, one(key="b", amount=1))
        until(world.all_committed, "events go on behind it")
    assert world.state(first) == {"a": 11, "b": 2, "poison": 1}
    assert world.dead_letters(first) == []
    assert [(e.from_offset, e.events) for e in world.changelog(first)[-2:]] == [
        (before, 0),
        (before.next, 1),
    ]
    assert world.local_state(first) == (world.end(first), world.state(first))


def test_pipeline_without_keyed_changes_is_refused_at_its_start(
    world: SparkWorld, session: SparkSession
) -> None:
    pipeline = Pipeline(
        name="sums",
        schema="key string, amount bigint",
        changes=lambda events: events.groupBy("key").agg(F.sum("amount").alias("amount")),
        merge=add,
    )
    consumer = Consumer(pipeline, world.link(), session, threading.Event())  # type: ignore[arg-type]
    try:
        with pytest.raises(InvalidInput, match="the pipeline's changes have no column 'partition'"):
            consumer.process()
    finally:
        consumer.close()
    assert world.health().state == "dead"
