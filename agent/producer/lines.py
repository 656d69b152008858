"""Lines of JSON -> events, what becomes of malformed ones, and the ids of those that are stored."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO

import msgspec

from agent.producer.library import Acknowledged
from assignment.errors import InvalidInput

LINE_BYTES_MAX = 2**20
RAW_CHARACTERS_MAX = 1_000  # of a malformed line, in a message or dead letter


class Line(NamedTuple):
    """`number` from 1; `raw` is cut off above LINE_BYTES_MAX, which makes it malformed."""

    number: int
    raw: bytes


class Keyed(NamedTuple):
    key: str
    event: dict[str, Any]
    event_id: int


@dataclass(slots=True)
class DeadLines:
    """Malformed lines: each is told, counted, and written as a line of JSON where there is a file.

    Fields of such a line: line (its number), reason, raw.
    """

    say: Callable[[str], None]
    file: TextIO | None = None
    count: int = 0

    def add(self, line: Line, reason: str) -> None:
        self.count += 1
        self.say(f"line {line.number} is malformed and left out: {reason}")
        if self.file is not None:
            raw = line.raw.decode(errors="replace")[:RAW_CHARACTERS_MAX]
            letter = {"line": line.number, "reason": reason, "raw": raw}
            self.file.write(json.dumps(letter) + "\n")
            self.file.flush()


def read_lines(file: IO[bytes]) -> Iterator[Line]:
    """Lines that are not blank, each as soon as it is there."""
    number = 0
    while raw := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(raw) > LINE_BYTES_MAX:
            rest = raw
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(LINE_BYTES_MAX)
        if raw.strip():
            yield Line(number, raw)


def event_of(line: Line, key: str, event_id: str | None) -> Keyed:
    """`key`, `event_id`: names of fields; without the latter the line's number is the id.

    Raises InvalidInput: the line is no event.
    """
    if len(line.raw) > LINE_BYTES_MAX:
        raise InvalidInput(f"longer than {LINE_BYTES_MAX} bytes")
    try:
        event = msgspec.json.decode(line.raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"not JSON: {error}") from error
    if not isinstance(event, dict):
        raise InvalidInput("not a JSON object")
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidInput(f"its key, field {key!r}, is {value!r}, not a text or whole number")
    number = line.number if event_id is None else event.get(event_id)
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidInput(f"its id, field {event_id!r}, is {number!r}, not a whole number")
    return Keyed(str(value), event, number)


@contextmanager
def acknowledging(path: Path | None) -> Iterator[Acknowledged]:
    """Appends to the file, flushed with every batch; None: nothing is written. Raises OSError."""
    if path is None:
        yield lambda ids: None
        return
    with path.open("a") as file:

        def write(ids: Sequence[int]) -> None:
            file.write("".join(f"{event_id}\n" for event_id in ids))
            file.flush()

        yield write
