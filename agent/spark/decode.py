"""Entries of a stream -> Arrow tables of events, and dead letters for what cannot be read.

Forms, told by the name of the only field: `arrow` (an Arrow IPC stream of events), `lines` (many
JSON objects, one a line), `json` (one JSON object); any other fields are the columns of one event.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

import pyarrow as pa
from pyarrow import json as arrow_json

from assignment.scripts.dead_letters import DeadLetter
from assignment.scripts.values import Raw

RAW_BYTES_MAX = 65_536  # of a malformed event that a dead letter keeps
REASON_CHARACTERS_MAX = 300

RawEntry = Sequence[Raw]
Payloads = Sequence[bytes]
Place = Callable[[int], tuple[bytes, int]]  # entry id, index in the entry


@dataclass(slots=True)
class Decoded:
    """Events of some entries, in their order; `events` counts the malformed ones too."""

    tables: list[pa.Table] = field(default_factory=list)
    events: int = 0
    dead: list[DeadLetter] = field(default_factory=list)

    def add(self, table: pa.Table) -> None:
        self.tables.append(table)
        self.events += table.num_rows

    def add_dead(self, reason: str, entry_id: bytes, index: int, raw: bytes) -> None:
        reason, raw = reason[:REASON_CHARACTERS_MAX], raw[:RAW_BYTES_MAX]
        self.dead.append(DeadLetter(reason, entry_id.decode(), index, raw))
        self.events += 1


class Decoder:
    """For events of one schema; holds nothing between calls."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._parse = arrow_json.ParseOptions(
            explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="ignore"
        )

    def decode(self, entries: Sequence[RawEntry]) -> Decoded:
        decoded = Decoded()
        if len({entry[1][0] if len(entry[1]) == 2 else b"" for entry in entries}) == 1:
            self._decode_run(_form(entries[0]), entries, decoded)
            return decoded
        for form, run in groupby(entries, key=_form):
            self._decode_run(form, list(run), decoded)
        return decoded

    def _decode_run(self, form: bytes, entries: Sequence[RawEntry], decoded: Decoded) -> None:
        match form:
            case b"json":
                texts = [fields[1] for _, fields in entries]
                self._objects(texts, 0, lambda n: (entries[n][0], 0), decoded)
            case b"lines":
                for entry_id, (_, text) in entries:
                    self._objects(text.splitlines(), 0, partial(_line, entry_id), decoded)
            case b"arrow":
                for entry in entries:
                    self._table(entry, decoded)
            case _:
                self._fields(entries, decoded)

    def _objects(self, payloads: Payloads, first: int, place: Place, decoded: Decoded) -> None:
        """One JSON object each; halves what does not parse until it is one. `place` of number
        `first` + n is where payload n was found.
        """
        try:
            if payloads:
                decoded.add(self._parsed(payloads))
        except (pa.ArrowException, ValueError) as error:
            if len(payloads) == 1:
                decoded.add_dead(f"not an event: {error}", *place(first), payloads[0])
                return
            middle = len(payloads) // 2
            self._objects(payloads[:middle], first, place, decoded)
            self._objects(payloads[middle:], first + middle, place, decoded)

    def _parsed(self, payloads: Payloads) -> pa.Table:
        """Raises pa.ArrowInvalid unless each payload is exactly one object of the schema."""
        if not _all_objects(payloads):
            payloads = [payload.strip() for payload in payloads]
            if not _all_objects(payloads):
                raise pa.ArrowInvalid("not a JSON object")
        text = b"\n".join(payloads)
        if text.count(b"\n") != len(payloads) - 1:
            raise pa.ArrowInvalid("more than one line")
        if not text.isascii():
            text.decode()  # Arrow does not look, and Spark must not get it
        table = arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=self._parse,
        )
        if table.num_rows != len(payloads):
            raise pa.ArrowInvalid("not one JSON object")
        return table

    def _table(self, entry: RawEntry, decoded: Decoded) -> None:
        entry_id, (_, payload) = entry
        try:
            with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
                table = self.fitted(reader.read_all())
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            decoded.add_dead(f"not an Arrow stream of events: {error}", entry_id, 0, payload)
        else:
            decoded.add(table)

    def fitted(self, table: pa.Table) -> pa.Table:
        """The columns of the schema, missing ones null. pa.ArrowInvalid: a value does not fit."""
        if table.schema.equals(self.schema):
            return table
        columns = [
            table.column(column.name).cast(column.type)
            if column.name in table.column_names
            else pa.nulls(table.num_rows, column.type)
            for column in self.schema
        ]
        return pa.table(columns, schema=self.schema)

    def _fields(self, entries: Sequence[RawEntry], decoded: Decoded) -> None:
        """One event per entry, its columns as text."""
        try:
            rows = [_texts(fields) for _, fields in entries]
            columns = [
                pa.array([row.get(column.name) for row in rows], pa.string()).cast(column.type)
                for column in self.schema
            ]
            decoded.add(pa.table(columns, schema=self.schema))
        except (pa.ArrowException, ValueError) as error:
            if len(entries) == 1:
                entry_id, fields = entries[0]
                decoded.add_dead(f"not an event: {error}", entry_id, 0, b" ".join(fields))
                return
            middle = len(entries) // 2
            self._fields(entries[:middle], decoded)
            self._fields(entries[middle:], decoded)


def batches(
    tables: Iterator[pa.Table], schema: pa.Schema, rows_min: int
) -> Iterator[pa.RecordBatch]:
    """Few large record batches: each costs Spark some tens of microseconds."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= rows_min:
            yield from _together(waiting, schema)
            waiting, rows = [], 0
    if rows:
        yield from _together(waiting, schema)


def _together(tables: list[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in pa.concat_tables(tables).combine_chunks().to_batches():
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _all_objects(payloads: Payloads) -> bool:
    """Each begins with a brace, as then do the first and the last of them in order of bytes."""
    return min(payloads)[:1] == max(payloads)[:1] == b"{"


def _line(entry_id: bytes, number: int) -> tuple[bytes, int]:
    return entry_id, number


def _form(entry: RawEntry) -> bytes:
    fields = entry[1]
    name: bytes = fields[0] if len(fields) == 2 else b""
    return name if name in (b"json", b"lines", b"arrow") else b""


def _texts(fields: Sequence[bytes]) -> dict[str, str]:
    names = (name.decode() for name in fields[::2])
    return dict(zip(names, (value.decode() for value in fields[1::2]), strict=True))
