"""Sinks: effects that go somewhere else than into a partition's state (pipeline.md section 3).

`SqlSink` writes effects, offset and fence check in one transaction of a database with a DB-API 2.0
driver: the sink's offset is the truth, and no effect is lost or doubled whatever happens in
between. A batch's dead letters ride in that transaction, for a Redis that never hears of the batch.
`AtLeastOnceSink` is for everything else. Knows nothing of Spark or Redis.
"""

import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from assignment.errors import EvenkeelError, Fenced, InvalidInput
from assignment.scripts.dead_letters import DeadLetter
from assignment.types import NAME_PATTERN, START, Offset, Partition

Connection = Any  # PEP 249 gives names, not types
Cursor = Any

OFFSETS_TABLE = "evenkeel_offsets"
TABLES = {
    "{table}": "group_name VARCHAR(100) NOT NULL, partition_name VARCHAR(120) NOT NULL,"
    " fence BIGINT NOT NULL, committed VARCHAR(50) NOT NULL, events BIGINT NOT NULL,"
    " PRIMARY KEY (group_name, partition_name)",
    "{table}_letters": "group_name VARCHAR(100) NOT NULL, partition_name VARCHAR(120) NOT NULL,"
    " reached VARCHAR(50) NOT NULL, fence BIGINT NOT NULL, letters INTEGER NOT NULL,"
    " content TEXT NOT NULL, PRIMARY KEY (group_name, partition_name, reached)",
}
# Of a partition, in its last batches that have any: as many as one commit in Redis carries. Only
# the last batch's are needed while Redis loses nothing.
LETTERS_KEPT = 1_000
SQLITE_BUSY_S = 30.0  # other consumers write to the same file
POSTGRES_CONNECT_S = 5
LIBPQ_IN_TRANSACTION = 2  # 3 is one with a failed statement: its COMMIT is a rollback
# PEP 249's names for "the database, not the statement, is the trouble".
PASSING = frozenset(("OperationalError", "InterfaceError"))


class SinkUnavailable(EvenkeelError):
    """The database does not answer now; a commit may be done or not: ask again, bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Effects of the events in (from_offset, to_offset] of one partition: its changed keys.
    `dead`: those of them that cannot be read, which are no effects.
    """

    partition: Partition
    fence: int
    from_offset: Offset
    to_offset: Offset
    events: int
    changes: Sequence[tuple[str, Mapping[str, Any]]] = ()
    dead: Sequence[DeadLetter] = ()

    @property
    def idempotency_key(self) -> tuple[str, str]:
        """(partition, offset): effects up to that offset need not be stored again."""
        return str(self.partition), str(self.to_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSink:
    """Effects in a database.

    `connect`: a new connection that is not in autocommit and may be used from any thread.
    `write`: (cursor, delivery) -> the effects' statements. It runs inside the transaction that
    moves the offset: it must neither commit nor roll back, and is called again after a rollback.
    `table`: made when it is not there; one row for each group and partition. So is one beside it
    for dead letters, whose name ends with `_letters`.
    """

    connect: Callable[[], Connection]
    write: Callable[[Cursor, Delivery], None]
    table: str = OFFSETS_TABLE
    guarantee = "effects exactly once: in one transaction with offset and fence"

    def __post_init__(self) -> None:
        if not NAME_PATTERN.fullmatch(self.table) or not self.table.isidentifier():
            raise InvalidInput(f"table {self.table!r} is not a plain name")


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeastOnceSink:
    """Effects in something without transactions, or without room for an offset in them.

    `deliver` returns when the effects are stored. After a crash events of deliveries that were not
    committed in Redis come again, maybe cut otherwise; always from the same offset on. Who keeps
    the idempotency key with the effects can tell.
    """

    deliver: Callable[[Delivery], None]
    guarantee = "effects at least once: idempotency key is (partition, offset)"


Sink = SqlSink | AtLeastOnceSink


def sqlite_sink(path: str, write: Callable[[Cursor, Delivery], None]) -> SqlSink:
    """A sink in an SQLite file."""

    def connect() -> Connection:
        connection = sqlite3.connect(path, timeout=SQLITE_BUSY_S, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        return connection

    return SqlSink(connect=connect, write=write)


def postgres_sink(url: str, write: Callable[[Cursor, Delivery], None]) -> SqlSink:
    """A sink in PostgreSQL through psycopg 3."""

    def connect() -> Connection:
        import psycopg  # needed by those who write to PostgreSQL only

        return psycopg.connect(url, connect_timeout=POSTGRES_CONNECT_S)

    return SqlSink(connect=connect, write=write)


class Position(NamedTuple):
    """A partition's row in the sink: its last owner there, up to where, how many events."""

    fence: int
    offset: Offset
    events: int


class LettersOf(NamedTuple):
    """Dead letters of the batch that ended at `reached`, applied under that fence."""

    reached: Offset
    fence: int
    dead: Sequence[DeadLetter]


class SinkResult(StrEnum):
    APPLIED = "applied"
    ALREADY = "already"  # this delivery, before: its reply was lost
    MOVED = "moved"  # the sink stands at another offset: nothing was applied
    FENCED = "fenced"  # a later owner opened the partition: nothing was applied


class SinkDoor:
    """One connection to a SqlSink. Every method may raise SinkUnavailable: ask again."""

    def __init__(self, sink: SqlSink, group: str) -> None:
        self._sink = sink
        self._group = group
        self._connection: Connection | None = None
        self._mark = "?"

    def open(self, partition: Partition, fence: int) -> Position:
        """Stores the fence in the sink, from which on no owner before it can write, and answers
        from which offset this owner has to begin. Raises Fenced: a later owner was here.
        """
        row = (self._group, str(partition))
        with self._transaction() as cursor:
            self._execute(
                cursor,
                "INSERT INTO {table} (group_name, partition_name, fence, committed, events)"
                " VALUES (?, ?, ?, ?, 0) ON CONFLICT (group_name, partition_name) DO NOTHING",
                (*row, fence, str(START)),
            )
            self._execute(
                cursor,
                "UPDATE {table} SET fence = ?"
                " WHERE group_name = ? AND partition_name = ? AND fence <= ?",
                (fence, *row, fence),
            )
            position = self._position(cursor, partition)
        assert position is not None
        if position.fence != fence:
            raise Fenced(f"{partition}: the sink was opened under fence {position.fence}")
        return position

    def positions(self) -> dict[Partition, Position]:
        """All rows of the group."""
        with self._transaction() as cursor:
            self._execute(
                cursor,
                "SELECT partition_name, fence, committed, events FROM {table} WHERE group_name = ?",
                (self._group,),
            )
            return {Partition.parse(row[0]): _position(row[1:]) for row in cursor.fetchall()}

    def letters(self, partition: Partition, after: Offset, to: Offset) -> list[LettersOf]:
        """Of the last batches that ended in (after, to], the oldest first."""
        with self._transaction() as cursor:
            self._execute(
                cursor,
                "SELECT reached, fence, content FROM {table}_letters"
                " WHERE group_name = ? AND partition_name = ?",
                (self._group, str(partition)),
            )
            rows = [(Offset.parse(row[0]), row) for row in cursor.fetchall()]
        return [
            LettersOf(reached, int(row[1]), msgspec.json.decode(row[2], type=list[DeadLetter]))
            for reached, row in sorted(rows)
            if after < reached <= to
        ]

    def apply(self, delivery: Delivery) -> SinkResult:
        """Effects, dead letters and offset, when the sink stands at `from_offset` under this fence;
        all or nothing. May be asked again with the same delivery.
        """
        with self._transaction() as cursor:
            self._execute(
                cursor,
                "UPDATE {table} SET committed = ?, events = events + ?"
                " WHERE group_name = ? AND partition_name = ? AND fence = ? AND committed = ?",
                (
                    str(delivery.to_offset),
                    delivery.events,
                    self._group,
                    str(delivery.partition),
                    delivery.fence,
                    str(delivery.from_offset),
                ),
            )
            if cursor.rowcount == 1:
                if delivery.dead:
                    self._keep_letters(cursor, delivery)
                self._sink.write(cursor, delivery)
                self._check_transaction("its write() ended the transaction or hid an error in it")
                return SinkResult.APPLIED
            return _judged(delivery, self._position(cursor, delivery.partition))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be broken: that is why it is closed
                connection.close()

    # --- inside

    @contextmanager
    def _transaction(self) -> Iterator[Cursor]:
        try:
            connection = self._connected()
            try:
                with closing(connection.cursor()) as cursor:
                    yield cursor
                connection.commit()
            except BaseException:
                connection.rollback()
                raise
        except Exception as error:
            self.close()
            if _passing(error):
                raise SinkUnavailable(f"the sink's database refuses: {error}") from error
            raise

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._sink.connect()
            self._mark = _mark(self._connection)
            self._check_mode()
            for table, columns in TABLES.items():
                self._make_table(self._connection, table, columns)
        return self._connection

    def _check_mode(self) -> None:
        """Effects and offset would not be one transaction."""
        in_autocommit = getattr(self._connection, "autocommit", False) is True
        if isinstance(self._connection, sqlite3.Connection):
            in_autocommit |= self._connection.isolation_level is None
        if in_autocommit:
            raise InvalidInput("the sink's connection is in autocommit: give one that is not")

    def _check_transaction(self, trouble: str) -> None:
        """What the effects' statements may have done, where the driver can tell."""
        within: bool | None = getattr(self._connection, "in_transaction", None)
        if (info := getattr(self._connection, "info", None)) is not None:
            status = getattr(info, "transaction_status", None)
            within = None if status is None else int(status) == LIBPQ_IN_TRANSACTION
        if within is False:
            raise InvalidInput(f"the sink is broken: {trouble}")

    def _make_table(self, connection: Connection, table: str, columns: str) -> None:
        """Looks first, and after a failure again: two consumers may make it at the same moment."""
        look = f"SELECT 1 FROM {table} WHERE 1 = 0"
        with suppress(connection.Error):
            return self._run(connection, look)
        try:
            self._run(connection, f"CREATE TABLE {table} ({columns})")
        except connection.Error:
            with suppress(connection.Error):
                return self._run(connection, look)
            raise

    def _run(self, connection: Connection, statement: str) -> None:
        try:
            with closing(connection.cursor()) as cursor:
                self._execute(cursor, statement, ())
            connection.commit()
        except connection.Error:
            connection.rollback()
            raise

    def _keep_letters(self, cursor: Cursor, delivery: Delivery) -> None:
        row = (self._group, str(delivery.partition))
        self._execute(
            cursor,
            "SELECT reached, letters FROM {table}_letters"
            " WHERE group_name = ? AND partition_name = ?",
            row,
        )
        stored = [(Offset.parse(reached), int(letters)) for reached, letters in cursor.fetchall()]
        for reached in _outdated(stored, delivery):
            self._execute(
                cursor,
                "DELETE FROM {table}_letters"
                " WHERE group_name = ? AND partition_name = ? AND reached = ?",
                (*row, str(reached)),
            )
        content = msgspec.json.encode(delivery.dead).decode()
        self._execute(
            cursor,
            "INSERT INTO {table}_letters"
            " (group_name, partition_name, reached, fence, letters, content)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*row, str(delivery.to_offset), delivery.fence, len(delivery.dead), content),
        )

    def _position(self, cursor: Cursor, partition: Partition) -> Position | None:
        self._execute(
            cursor,
            "SELECT fence, committed, events FROM {table}"
            " WHERE group_name = ? AND partition_name = ?",
            (self._group, str(partition)),
        )
        row = cursor.fetchone()
        return None if row is None else _position(row)

    def _execute(self, cursor: Cursor, statement: str, values: tuple[str | int, ...]) -> None:
        text = statement.format(table=self._sink.table).replace("?", self._mark)
        cursor.execute(text, values)


def _mark(connection: Connection) -> str:
    """How its driver writes a parameter. Raises InvalidInput: in another way than the two known."""
    packages = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    styles = [getattr(sys.modules[package], "paramstyle", None) for package in packages]
    style = next((style for style in styles if style), None)
    if style not in ("qmark", "format", "pyformat"):
        raise InvalidInput(f"the sink's driver {packages[0]} has paramstyle {style!r}")
    return "?" if style == "qmark" else "%s"


def _position(row: Sequence[Any]) -> Position:
    return Position(int(row[0]), Offset.parse(row[1]), int(row[2]))


def _outdated(stored: Sequence[tuple[Offset, int]], delivery: Delivery) -> Iterator[Offset]:
    """Ends of batches whose letters (end, number) go when those of a delivery come: the oldest of
    too many, and those above where the delivery begins, of a row that somebody moved back.
    """
    letters = len(delivery.dead)
    for reached, count in sorted(stored, reverse=True):
        is_undone = reached > delivery.from_offset
        letters += 0 if is_undone else count
        if is_undone or letters > LETTERS_KEPT:
            yield reached


def _judged(delivery: Delivery, position: Position | None) -> SinkResult:
    """Why the update found no row; also what became of a commit whose reply was lost."""
    if position is None or position.fence < delivery.fence:
        return SinkResult.MOVED
    if position.fence > delivery.fence:
        return SinkResult.FENCED
    return SinkResult.ALREADY if position.offset == delivery.to_offset else SinkResult.MOVED


def _passing(error: Exception) -> bool:
    """Whether the same may succeed later. SQLite says with the same class that the SQL is wrong."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
        return False
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, OSError) or not PASSING.isdisjoint(kinds)
