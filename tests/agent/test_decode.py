"""Entries of every form -> events; whatever is not what its form says -> one dead letter each."""

import io
import json
from typing import Any

import pyarrow as pa
import pytest

from agent.spark.decode import Decoded, Decoder, batches

SCHEMA = pa.schema([("key", pa.string()), ("amount", pa.int64()), ("ratio", pa.float64())])


def decode(*fields: list[bytes]) -> Decoded:
    return Decoder(SCHEMA).decode([[b"%d-0" % n, f] for n, f in enumerate(fields, 1)])


def rows(decoded: Decoded) -> list[tuple[Any, ...]]:
    found = [row for table in decoded.tables for row in table.to_pylist()]
    return [tuple(row[name] for name in SCHEMA.names) for row in found]


def stream(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def test_forms_are_mixed_in_one_stream() -> None:
    arrow = stream(pa.table({"key": ["c"], "amount": pa.array([3], pa.int64()), "ratio": [0.5]}))
    decoded = decode(
        [b"json", b'{"key": "a", "amount": 1, "ratio": 0.25, "more": [1]}'],
        [b"key", b"b", b"amount", b"2", b"else", b"x"],
        [b"arrow", arrow],
        [b"lines", b'{"key": "d"}\n{"amount": 5}'],
    )
    assert rows(decoded) == [
        ("a", 1, 0.25),
        ("b", 2, None),
        ("c", 3, 0.5),
        ("d", None, None),
        (None, 5, None),
    ]
    assert (decoded.events, decoded.dead) == (5, [])


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"  ",
        b"{",
        b"[]",
        b"1",
        b"null",
        b'{"amount": "1"}',
        b'{"amount": 1.5}',
        b'{"key": 1}',
        b'{"amount": 1}\n{"amount": 2}',
        b'{"amount": 1}{"amount": 2}',
        b'{"amount":\n1}',
        b"\xff\xfe",
        b'{"key": "\xff"}',
        b"\x00",
    ],
)
def test_payload_that_is_no_event_is_one_dead_letter(payload: bytes) -> None:
    good = json.dumps({"key": "a", "amount": 1}).encode()
    decoded = decode([b"json", good], [b"json", payload], [b"json", good])
    assert rows(decoded) == [("a", 1, None), ("a", 1, None)]
    assert decoded.events == 3
    assert [(d.entry_id, d.index, d.raw) for d in decoded.dead] == [("2-0", 0, payload)]


def test_two_wrongs_do_not_make_a_right_count() -> None:
    decoded = decode([b"json", b'{"amount": 1} {"amount": 2}'], [b"json", b" "])
    assert (rows(decoded), len(decoded.dead), decoded.events) == ([], 2, 2)


@pytest.mark.parametrize(
    "payload",
    [b"", b"junk", stream(pa.table({"key": ["a"]}))[:-20], stream(pa.table({"amount": ["x"]}))],
)
def test_entry_that_is_no_arrow_stream_is_one_dead_letter(payload: bytes) -> None:
    decoded = decode([b"arrow", payload])
    assert (rows(decoded), decoded.events) == ([], 1)
    assert decoded.dead[0].raw == payload
    assert "Arrow" in decoded.dead[0].reason


def test_arrow_columns_are_fitted_to_the_schema() -> None:
    table = pa.table({"amount": pa.array([1, 2], pa.int32()), "more": ["x", "y"]})
    assert rows(decode([b"arrow", stream(table)])) == [(None, 1, None), (None, 2, None)]


def test_malformed_line_is_named_by_its_index() -> None:
    decoded = decode([b"lines", b'{"amount": 1}\n\n{"amount": 3}\n{"amount"'])
    assert [d.index for d in decoded.dead] == [1, 3]
    assert decoded.events == 4


def test_fields_that_do_not_fit_are_one_dead_letter() -> None:
    decoded = decode([b"amount", b"1"], [b"amount", b"one"], [b"key", b"\xff"], [b"amount", b"4"])
    assert rows(decoded) == [(None, 1, None), (None, 4, None)]
    assert [d.entry_id for d in decoded.dead] == ["2-0", "3-0"]


def test_long_garbage_is_kept_in_part() -> None:
    dead = decode([b"json", b"x" * 200_000]).dead[0]
    assert len(dead.raw) == 65_536
    assert len(dead.reason) <= 300


def test_tables_leave_in_few_large_batches() -> None:
    table = pa.table({"n": pa.array(range(10), pa.int64())})
    made = list(batches(iter([table] * 25), table.schema, rows_min=100))
    assert [batch.num_rows for batch in made] == [100, 100, 50]
