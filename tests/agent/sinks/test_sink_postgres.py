"""A SQL sink in PostgreSQL."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from agent.spark.sql_sink import Cursor, Delivery, Position, SinkDoor, SinkResult, postgres_sink
from assignment.errors import InvalidInput
from assignment.types import START
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
    write_rows,
)
from tests.contract.world import P0, World, offset


@pytest.mark.postgres
def test_postgres_sink_keeps_the_same_promises(
    world: World, postgres_url: str, tmp_path: Path
) -> None:
    database = Database(postgres_sink(postgres_url, write_rows))
    fence = world.running("a", P0)
    first = Consumer(world, database, "a", tmp_path)
    (one,) = first.next_batch()
    first.commit(one, 3)
    assert first.door.apply(delivery(fence, 3, 5)) is SinkResult.APPLIED  # Redis never hears of it
    assert first.door.apply(delivery(fence, 3, 5)) is SinkResult.ALREADY
    fence_b = hand_to_b(world, fence)
    b = Consumer(world, database, "b", tmp_path)
    assert b.next_batch() == [planned(fence_b, 5, 5)]
    assert first.door.apply(delivery(fence, 5, 9)) is SinkResult.FENCED
    b.commit(planned(fence_b, 5, 5), 7)
    assert (committed(world), database.events()) == (offset(7), numbers(1, 7))


@pytest.mark.postgres
def test_postgres_has_the_letters_of_a_batch_as_they_were(postgres_url: str) -> None:
    """Also what its texts cannot hold."""
    database = Database(postgres_sink(postgres_url, write_rows))
    door = SinkDoor(database.sink, "lettered")
    door.open(P0, 7)
    dead = [bad_letter(1), bad_letter(2)]
    assert door.apply(replace(delivery(7, 0, 3), dead=dead)) is SinkResult.APPLIED
    assert door.letters(P0, START, offset(3)) == [(offset(3), 7, dead)]


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
