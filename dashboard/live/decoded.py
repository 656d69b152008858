"""What entries of a stream say, as far as it can be shown: events with their fields.

Reads the forms that agent/spark/decode.py reads, but without the schema of a pipeline, and never
more than a person can look at. What is in an entry was written by whoever holds a producer's token:
nothing in it is believed.
"""

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assignment.bounds import shortened
from assignment.types import Offset
from dashboard.live.events import RawEntry, Value

EVENTS_SHOWN = 20  # of one entry
FIELDS_SHOWN = 100  # of one event
ITEMS_SHOWN = 50  # of a list in an event
DEPTH_SHOWN = 8
VALUE_SHOWN = 500  # characters
RAW_SHOWN = 1_000  # characters of what cannot be read
WHY_SHOWN = 300
EXACT_BELOW = 2**53  # every reader of JSON keeps these
MASKED = "••••"

Event = dict[str, Any]


class Unreadable(Exception):
    """Why the entry cannot be shown as events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`events`: the first of them, of `count` (None: not known). `why`: it cannot be read, and its
    beginning stands in `raw`, unless fields are masked: which ones it has nobody knows.
    """

    entry_id: Offset
    form: str
    size: int  # bytes
    count: int | None = None
    events: tuple[Event, ...] = ()
    why: str = ""
    raw: str = ""


def decoded(raw: RawEntry, masked: frozenset[str]) -> Entry:
    """`masked`: names of fields in lower case, which are not shown wherever they are."""
    values = raw.values
    form = values[0].name.decode(errors="replace") if len(values) == 1 else ""
    form, read = (form, FORMS[form]) if form in FORMS else ("fields", _of_fields)
    size = sum(len(value.name) + value.size for value in values)
    try:
        count, events = read(values)
        shown = tuple(_masked(event, masked) for event in events[:EVENTS_SHOWN])
    except Unreadable as error:
        beginning = b" ".join(value.text[:RAW_SHOWN] for value in values)[:RAW_SHOWN]
        text = "" if masked else beginning.decode(errors="backslashreplace")
        why = shortened(str(error), WHY_SHOWN)
        return Entry(entry_id=raw.entry_id, form=form, size=size, why=why, raw=text)
    return Entry(entry_id=raw.entry_id, form=form, size=size, count=count, events=shown)


def letter_text(raw: bytes, size: int, masked: frozenset[str]) -> str | None:
    """Of a dead letter with `size` bytes, of which `raw` are the first: how it begins, as it lies
    there. Where fields are masked: what is one JSON object without them, and None for all else.
    """
    if not masked:
        return raw[:RAW_SHOWN].decode(errors="backslashreplace")
    try:
        _, (event,) = _of_json([Value(b"json", size, raw)])
    except Unreadable:
        return None
    return shortened(json.dumps(_masked(event, masked), ensure_ascii=False), RAW_SHOWN)


# --- forms ----------------------------------------------------------------------------------------


def _whole(values: Sequence[Value]) -> bytes:
    [value] = values
    if value.is_cut:
        raise Unreadable(f"it has {value.size} bytes, too many to be read here")
    return value.text


def _object(text: bytes) -> Event:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Unreadable(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Unreadable("not a JSON object")
    return found


def _of_json(values: Sequence[Value]) -> tuple[int, list[Event]]:
    return 1, [_object(_whole(values))]


def _of_lines(values: Sequence[Value]) -> tuple[int, list[Event]]:
    lines = _whole(values).splitlines()
    return len(lines), [_object(line) for line in lines[:EVENTS_SHOWN]]


def _of_fields(values: Sequence[Value]) -> tuple[int, list[Event]]:
    texts = [(v.name, v.text + b"\xe2\x80\xa6" * v.is_cut) for v in values]
    return 1, [{n.decode(errors="replace"): t.decode(errors="replace") for n, t in texts}]


def _of_arrow(values: Sequence[Value]) -> tuple[int, list[Event]]:
    try:
        import pyarrow as pa
    except ImportError:
        raise Unreadable("to read Arrow takes pyarrow: install evenkeel[spark]") from None
    payload = _whole(values)
    try:
        _demand_plain(pa, payload)
        with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        shown = table.slice(0, EVENTS_SHOWN)
        # Keys of a map are names, which may be masked.
        return table.num_rows, shown.to_pylist(maps_as_pydicts="lossy")
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise Unreadable(f"not an Arrow stream of events: {error}") from error
    except TypeError as error:
        raise Unreadable("it has a map whose keys are no names") from error


def _demand_plain(pa: Any, payload: bytes) -> None:
    """Refuses compressed buffers: a few bytes would say of themselves how much memory they take."""
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(payload)):
        if message.type not in ("schema", "record batch"):
            raise Unreadable(f"it has a {message.type}, which is not read here")
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise Unreadable("its buffers are compressed, which is not read here")


# In the flatbuffers of Arrow's format: Message.header, RecordBatch.compression.
HEADER, COMPRESSION = 2, 3


def _is_compressed(message: bytes) -> bool:
    (root,) = struct.unpack_from("<I", message)
    header = _field(message, root, HEADER)
    if header is None:
        raise Unreadable("a message without a header")
    (batch,) = struct.unpack_from("<I", message, header)
    return _field(message, header + batch, COMPRESSION) is not None


def _field(message: bytes, table: int, number: int) -> int | None:
    """Where the field of a flatbuffer's table lies; None when it has none. Raises struct.error."""
    (back,) = struct.unpack_from("<i", message, table)
    at = table - back
    (size,) = struct.unpack_from("<H", message, at)
    slot = 4 + 2 * number
    if slot + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", message, at + slot)
    return table + offset if offset else None


FORMS: Mapping[str, Callable[[Sequence[Value]], tuple[int, list[Event]]]] = {
    "json": _of_json,
    "lines": _of_lines,
    "arrow": _of_arrow,
}

# --- what is shown --------------------------------------------------------------------------------


def _masked(event: Event, masked: frozenset[str], depth: int = 1) -> Event:
    return {
        shortened(str(name), VALUE_SHOWN): MASKED
        if str(name).strip().lower() in masked
        else _value(value, masked, depth)
        for name, value in list(event.items())[:FIELDS_SHOWN]
    }


def _value(value: Any, masked: frozenset[str], depth: int) -> Any:
    """A value of JSON, cut."""
    if isinstance(value, dict | list | tuple):
        return "…" if depth == DEPTH_SHOWN else _nested(value, masked, depth)
    if value is None or isinstance(value, bool) or _is_exact(value):
        return value
    if isinstance(value, bytes):
        value = value[:VALUE_SHOWN].decode(errors="backslashreplace")
    return shortened(str(value), VALUE_SHOWN)


def _nested(value: Any, masked: frozenset[str], depth: int) -> Any:
    if isinstance(value, dict):
        return _masked(value, masked, depth + 1)
    return [_value(one, masked, depth + 1) for one in value[:ITEMS_SHOWN]]


def _is_exact(value: Any) -> bool:
    """As a number of JSON."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and abs(value) < EXACT_BELOW
