"""Events -> entries of a stream, in the forms that agent/spark/decode.py reads. Sends nothing.

`arrow`: some hundred events an entry, an Arrow IPC stream; `lines`: as many as JSON lines; `json`:
one event an entry, one field of JSON; `fields`: one event an entry, a field per column.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agent.store.events import Packed
from assignment.errors import InvalidInput

FORMS = ("arrow", "lines", "json", "fields")
ENTRY_EVENTS_MAX = 500  # of the forms that hold many
ENTRY_BYTES_MAX = 2**20  # a reader takes whole entries; a larger single event is one entry
EVENT_BYTES_MAX = 16 * 2**20  # far below what Redis takes, far above what an event should be
TELLING_NAMES = frozenset(("arrow", "lines", "json"))  # the only field of an entry tells its form

Event = Mapping[str, Any]


class Item(NamedTuple):
    """One event that waits. `encoded`: as JSON, or in form `fields` only to know its size."""

    event: Event
    encoded: bytes
    event_id: int | None


def check_form(form: str) -> str:
    """Raises InvalidInput: no such form, or this set-up cannot write it."""
    if form not in FORMS:
        raise InvalidInput(f"form {form!r} is not one of {', '.join(FORMS)}")
    if form == "arrow":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise InvalidInput(
                "form 'arrow' needs pyarrow: install evenkeel[spark], or choose form 'lines'"
            ) from None
    return form


def item_of(form: str, event: Event, event_id: int | None) -> Item:
    """Raises InvalidInput: what is given cannot be an event of this form."""
    try:
        encoded = msgspec.json.encode(event)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"the event cannot be written as JSON: {error}") from error
    if encoded[:1] != b"{":
        raise InvalidInput(f"the event is a {type(event).__name__}, not an object")
    if len(encoded) > EVENT_BYTES_MAX:
        raise InvalidInput(f"the event has {len(encoded)} bytes, at most {EVENT_BYTES_MAX} may be")
    if form == "fields":
        names = [name for name, value in event.items() if value is not None]
        if not names or (len(names) == 1 and names[0] in TELLING_NAMES):
            raise InvalidInput(f"an event with the fields {names} cannot be written as fields")
    return Item(event, encoded, event_id)


def pack(form: str, items: Sequence[Item]) -> list[Packed]:
    """The entries, in the order of the events."""
    match form:
        case "json":
            return [_packed((b"json", item.encoded), 1) for item in items]
        case "fields":
            return [_packed(_fields(item.event), 1) for item in items]
        case _:
            entries: list[Packed] = []
            for start in range(0, len(items), ENTRY_EVENTS_MAX):
                entries += _together(form, items[start : start + ENTRY_EVENTS_MAX])
            return entries


def _together(form: str, items: Sequence[Item]) -> list[Packed]:
    """One entry, or as many as ENTRY_BYTES_MAX asks for."""
    if len(items) > 1 and sum(len(item.encoded) for item in items) > ENTRY_BYTES_MAX:
        middle = len(items) // 2
        return _together(form, items[:middle]) + _together(form, items[middle:])
    table = _arrow([item.event for item in items]) if form == "arrow" else None
    if table is not None:
        return [_packed((b"arrow", table), len(items))]
    return [_packed((b"lines", b"\n".join(item.encoded for item in items)), len(items))]


def _arrow(events: Sequence[Event]) -> bytes | None:
    """An Arrow IPC stream; None when a column of these events has no one type."""
    import pyarrow as pa

    names = list(dict.fromkeys(name for event in events for name in event))
    try:
        columns = [pa.array([event.get(name) for event in events]) for name in names]
        batch = pa.RecordBatch.from_arrays(columns, names=names)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _fields(event: Event) -> tuple[bytes, ...]:
    return tuple(
        part
        for name, value in event.items()
        if value is not None
        for part in (name.encode(), _text(value))
    )


def _text(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def _packed(fields: tuple[bytes, ...], events: int) -> Packed:
    return Packed(fields, events, sum(map(len, fields)))
