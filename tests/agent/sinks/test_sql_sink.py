"""A SQL sink by itself: one transaction for effects and offset, or it is refused."""

import sqlite3
from pathlib import Path

import pytest

from agent.spark.sql_sink import (
    Cursor,
    Delivery,
    Position,
    SinkDoor,
    SinkResult,
    SinkUnavailable,
    SqlSink,
    sqlite_sink,
)
from assignment.errors import Fenced, InvalidInput
from assignment.types import START
from tests.agent.sinks.sink_world import GROUP, Breaking, Database, delivery, numbers, write_rows
from tests.contract.world import P0, offset

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
