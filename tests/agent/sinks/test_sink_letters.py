"""Events that cannot be read, in batches for a SQL sink: each is a dead letter once, whatever dies.

A real database, the scripts on the fake Redis, no Spark.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent.spark.sql_sink import (
    LETTERS_KEPT,
    Cursor,
    Delivery,
    SinkDoor,
    SinkResult,
    SqlSink,
    sqlite_sink,
)
from agent.store.group import GroupStore
from assignment.pauses import Pause, Pauses
from assignment.scripts import dead_letters
from assignment.scripts.agent_side import CommitAnswer, CommitRequest
from assignment.scripts.dead_letters import Bounds, KeptLetter
from assignment.scripts.offsets import offset_facts, set_offset
from assignment.scripts.pausing import set_pauses
from assignment.types import START, HeldState
from tests.agent.sinks.sink_world import (
    GROUP,
    Consumer,
    Database,
    bad_letter,
    committed,
    delivery,
    hand_to_b,
    numbers,
    planned,
)
from tests.contract.world import P0, World, offset

LETTERS_ALL = Bounds(letters=1_000, through=2**24, raw=100)


class Died(BaseException):
    """A consumer, with whatever it had in hand."""


def kept(world: World) -> list[KeptLetter]:
    """The oldest first."""
    return [*world.run(dead_letters.dead_letters([P0], LETTERS_ALL)).letters][::-1]


def texts(world: World) -> list[bytes]:
    return [letter.raw for letter in kept(world)]


def of(*bad: int) -> list[bytes]:
    return [b"%03d \xff\0" % n for n in bad]


@pytest.fixture
def dies_before_redis(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Runs what ends between the sink's transaction and the commit in Redis."""

    def die(*_: object) -> None:
        raise Died

    def dying(batch: Callable[[], object]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(GroupStore, "commit_many", die)
            with pytest.raises(Died):
                batch()

    return dying


def test_letters_of_a_batch_that_only_the_sink_knows_of_are_kept(
    world: World,
    database: Database,
    tmp_path: Path,
    dies_before_redis: Callable[[Callable[[], object]], None],
) -> None:
    fence = world.running("a", P0)
    first = Consumer(world, database, "a", tmp_path)
    first.commit(first.next_batch()[0], 3, bad={2})
    (one,) = first.next_batch()
    dies_before_redis(lambda: first.commit(one, 8, bad={5, 7}))
    assert (committed(world), texts(world)) == (offset(3), of(2))

    restarted = Consumer(world, database, "a", tmp_path)  # under the same fence
    assert restarted.next_batch() == [planned(fence, 8, 8)]
    assert (committed(world), texts(world)) == (offset(8), of(2, 5, 7))
    assert [(one.reason, one.entry, one.index) for one in kept(world)[1:]] == [
        ("bad\0", "5-0", 0),
        ("bad\0", "7-0", 0),
    ]
    assert all(one.is_sure for one in kept(world))
    assert database.events() == ["001", "003", "004", "006", "008"]


def test_letters_that_only_the_sink_knows_of_are_kept_by_the_next_owner(
    world: World,
    database: Database,
    tmp_path: Path,
    dies_before_redis: Callable[[Callable[[], object]], None],
) -> None:
    """Who had the batch was only paused, and goes on after that: it keeps none of them again."""
    fence = world.running("a", P0)
    paused = Consumer(world, database, "a", tmp_path)
    (one,) = paused.next_batch()
    dies_before_redis(lambda: paused.commit(one, 5, bad={1, 5}))
    fence_b = hand_to_b(world, fence)
    b = Consumer(world, database, "b", tmp_path)
    (begun,) = b.next_batch()
    assert begun == planned(fence_b, 5, 5)
    assert [late.fence for late in paused.commit(one, 5, bad={1, 5}).fenced] == [fence]
    b.commit(begun, 9, bad={9})
    assert (texts(world), database.events()) == (of(1, 5, 9), numbers(2, 4) + numbers(6, 8))


def test_late_commit_of_a_batch_that_redis_was_brought_to_keeps_nothing_again(
    world: World, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease was over for a moment, as it seemed: a plan came first."""
    world.running("a", P0)
    a = Consumer(world, database, "a", tmp_path)
    (one,) = a.next_batch()
    commit_many = GroupStore.commit_many

    def late(store: GroupStore, requests: Sequence[CommitRequest]) -> Sequence[CommitAnswer]:
        a.next_batch()
        assert committed(world) == offset(5)
        return commit_many(store, requests)

    monkeypatch.setattr(GroupStore, "commit_many", late)
    assert a.commit(one, 5, bad={2}).applied == {P0: 5}
    assert (committed(world), texts(world)) == (offset(5), of(2))


@pytest.mark.parametrize("is_raised", [False, True])
def test_redis_that_lost_many_batches_gets_the_letters_of_each_back(
    world: World, database: Database, tmp_path: Path, is_raised: bool
) -> None:
    """Once, though what became of them in the lost time nobody knows: none may be replayed, also
    not by who owns it under a newer incarnation.
    """
    fence = world.running("a", P0)
    a = Consumer(world, database, "a", tmp_path)
    for to, bad in ((3, {2}), (5, {5}), (6, set()), (9, {7, 8}), (10, set())):
        a.commit(a.next_batch()[0], to, bad=bad)
    world.another_run()
    (first, *lost) = [str(letter.name.at) for letter in kept(world)]
    world.door.ask("XDEL", world.keys.dead(P0), *lost)
    world.door.ask("HSET", world.keys.offsets, str(P0), "3-0")
    world.door.ask("HSET", world.keys.applied, str(P0), "3 0")
    if is_raised:
        world.set_incarnation(2)
        fence = world.fence("a", P0, incarnation=2)
        world.move("a", P0, fence, HeldState.RESTORING, HeldState.RUNNING)
    assert a.next_batch() == [planned(fence, 10, 10)]
    assert (committed(world), texts(world)) == (offset(10), of(2, 5, 7, 8))
    assert str(kept(world)[0].name.at) == first
    assert not any(letter.is_sure for letter in kept(world))
    assert world.read().applied[P0].total == 10


def test_offset_that_was_set_back_brings_no_letter_twice(
    world: World,
    database: Database,
    tmp_path: Path,
    dies_before_redis: Callable[[Callable[[], object]], None],
) -> None:
    """Its SQL sink goes past what was kept before; what Redis never had of it is kept."""
    fence = world.running("a", P0)
    a = Consumer(world, database, "a", tmp_path)
    for to in (3, 6):
        a.commit(a.next_batch()[0], to, bad={to})
    (one,) = a.next_batch()
    dies_before_redis(lambda: a.commit(one, 9, bad={9}))
    world.run(set_pauses(Pauses(version=1, group=Pause(actor="ann", reason="again", at_ms=1)), 0))
    world.next_batch("a")
    assert world.run(set_offset(P0, world.run(offset_facts(P0, START)), START, 0)).fence > fence
    world.run(set_pauses(Pauses(version=2), 1))
    fence = world.running("a", P0)
    restarted = Consumer(world, database, "a", tmp_path)
    assert restarted.next_batch() == [planned(fence, 9, 9)]
    assert (committed(world), texts(world)) == (offset(9), of(3, 6, 9))


# --- what the sink keeps --------------------------------------------------------------------------


def batch_of(low: int, high: int, letters: int) -> Delivery:
    dead = [bad_letter(low + 1)] * letters
    return replace(delivery(7, low, high), dead=dead)


def ends(door: SinkDoor) -> list[tuple[int, int]]:
    return [(one.reached.ms, len(one.dead)) for one in door.letters(P0, START, offset(99))]


def test_letters_of_the_last_batches_stay_as_many_as_a_commit_carries(database: Database) -> None:
    door = database.door()
    door.open(P0, 7)
    for n, letters in enumerate((1, LETTERS_KEPT - 10, 0, 9, 1)):
        assert door.apply(batch_of(n, n + 1, letters)) is SinkResult.APPLIED
    assert ends(door) == [(2, LETTERS_KEPT - 10), (4, 9), (5, 1)]
    assert door.letters(P0, offset(2), offset(4))[0].dead == [bad_letter(4)] * 9
    door.apply(batch_of(5, 6, LETTERS_KEPT + 1))
    assert ends(door) == [(6, LETTERS_KEPT + 1)], "all of the last one, whatever they are"
    assert SinkDoor(database.sink, "other").letters(P0, START, offset(99)) == []


def test_letters_above_a_row_that_was_moved_back_go_with_the_next_that_come(
    database: Database,
) -> None:
    door = database.door()
    door.open(P0, 7)
    for n in range(3):
        door.apply(batch_of(n, n + 1, 1))
    connection = database.sink.connect()
    connection.execute("UPDATE evenkeel_offsets SET committed = '1-0'")
    connection.commit()
    connection.close()
    door.apply(batch_of(1, 3, 2))
    assert ends(door) == [(1, 1), (3, 2)]


def test_effects_that_fail_leave_no_letter(database: Database, tmp_path: Path) -> None:
    def write(cursor: Cursor, delivery: Delivery) -> None:
        raise ZeroDivisionError("in the user's code")

    door = SinkDoor(sqlite_sink(str(tmp_path / "sink.sqlite3"), write), GROUP)
    door.open(P0, 7)
    with pytest.raises(ZeroDivisionError):
        door.apply(batch_of(0, 1, 1))
    assert ends(door) == []


def test_batch_without_letters_asks_the_database_nothing_of_them(tmp_path: Path) -> None:
    said: list[str] = []

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(tmp_path / "sink.sqlite3")
        connection.set_trace_callback(said.append)
        return connection

    door = SinkDoor(SqlSink(connect=connect, write=lambda *_: None), GROUP)
    door.open(P0, 7)
    said.clear()
    door.apply(batch_of(0, 1, 0))
    assert [statement.split()[0] for statement in said] == ["BEGIN", "UPDATE", "COMMIT"]
    said.clear()
    door.apply(batch_of(1, 2, 1))
    assert any("evenkeel_offsets_letters" in statement for statement in said)
