"""Many rows of a table at once, in the quickest way that the database has. What writes does so in
a transaction of the caller; every function raises DatabaseError.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection

Value = str | int | None


def fetched(text: str, values: Sequence[Value] | Mapping[str, Value]) -> list[Any]:
    """Tuples. Of a query that is asked often, as text: to make it of models takes longer than to
    answer it.
    """
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        rows: list[Any] = cursor.fetchall()
    return rows


def insert(table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
    """By COPY on PostgreSQL. Else prepared once: a third of what objects of the ORM cost."""
    values, names = list(rows), _quoted(columns)
    if not values:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with (
                connection.wrap_database_errors,
                cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy,
            ):
                for row in values:
                    copy.write_row(row)
        else:
            places = ", ".join(["%s"] * len(columns))
            cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({places})", values)


def update(
    table: str, columns: Mapping[str, str], rows: Iterable[tuple[int, *tuple[Value, ...]]]
) -> None:
    """`rows`: the id, then each of the columns, whose types PostgreSQL asks for: there it is one
    statement.
    """
    values = list(rows)
    if not values:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            kinds = ", ".join(f"%s::{kind}[]" for kind in ("bigint", *columns.values()))
            changes = ", ".join(f'"{name}" = changed."{name}"' for name in columns)
            cursor.execute(
                f"UPDATE {table} SET {changes}"
                f" FROM unnest({kinds}) AS changed (id, {_quoted(columns)})"
                f" WHERE {table}.id = changed.id",
                [list(column) for column in zip(*values, strict=True)],
            )
        else:
            changes = ", ".join(f'"{name}" = %s' for name in columns)
            cursor.executemany(
                f"UPDATE {table} SET {changes} WHERE id = %s",
                [(*changed, key) for key, *changed in values],
            )


def _quoted(columns: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)
