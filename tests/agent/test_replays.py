"""Events of dead letters, read again from their entry, or from what the letter kept of it."""

from typing import Any

import pyarrow as pa
import pytest

from agent.spark.decode import RAW_BYTES_MAX, Decoder
from agent.spark.replays import UNREAD_MAX, Unread, read_again
from agent.store.events import KeptText, RawEntry
from assignment.scripts.dead_letters import DeadLetter
from assignment.types import Offset
from tests.e2e.spark_world import arrow, fields, lines, one

SCHEMA = pa.schema([("key", pa.string()), ("amount", pa.int64())])
A, B = {"key": "a", "amount": 1}, {"key": "b", "amount": 2}
LONG = {"key": "x" * RAW_BYTES_MAX, "amount": 1}
WHOLE = b""


def letter(raw: bytes, index: bytes = b"0", reason: bytes = b"not an event: x") -> KeptText:
    return {"reason": reason, "entry": b"7-1", "index": index, "raw": raw}


def entry(*flat: bytes) -> RawEntry:
    return [b"7-1", list(flat)]


def events(kept: KeptText, at: RawEntry | None) -> tuple[list[dict[str, Any]], list[DeadLetter]]:
    unread = Unread([], Offset(9, 9))
    tables = list(read_again(Decoder(SCHEMA), [("ann", kept, at)], unread))
    assert unread.lowest == Offset(7, 1)
    return [row for table in tables for row in table.to_pylist()], unread.letters


LINES = lines(A, b"[]", B).fields


@pytest.mark.parametrize(
    ("kept", "at", "found"),
    [
        (letter(one(**A).fields[1]), entry(*one(**A).fields), [A]),
        (letter(one(**B).fields[1], b"2"), entry(*LINES), [B]),
        (letter(arrow(A, B).fields[1]), entry(*arrow(A, B).fields), [A, B]),
        (letter(b"key a amount 1"), entry(*fields(key="a", amount="1").fields), [A]),
        (letter(b" ".join(arrow(A, B).fields), WHOLE), entry(*arrow(A, B).fields), [A, B]),
        (letter(b" ".join(lines(A, B).fields), WHOLE), entry(*lines(A, B).fields), [A, B]),
        # Kept before letters said so.
        (
            letter(b" ".join(lines(A, B).fields), reason=b"skipped by ann: no"),
            entry(*lines(A, B).fields),
            [A, B],
        ),
    ],
)
def test_an_event_is_read_as_it_lies_in_its_entry(
    kept: KeptText, at: RawEntry, found: list[dict[str, Any]]
) -> None:
    assert events(kept, at) == (found, [])


@pytest.mark.parametrize("at", [None, entry(b"json", b'{"key": "another"}')])
@pytest.mark.parametrize(
    ("kept", "found"),
    [
        (letter(one(**A).fields[1]), [A]),
        (letter(b" ".join(lines(A, B).fields), WHOLE), [A, B]),
        (letter(b" ".join(arrow(A, B).fields), WHOLE), [A, B]),
        (letter(b" ".join(one(**A).fields), WHOLE), [A]),
    ],
)
def test_without_its_entry_it_is_read_from_the_text_that_was_kept(
    at: RawEntry | None, kept: KeptText, found: list[dict[str, Any]]
) -> None:
    """Also where a Redis that had lost writes gave the id to another entry."""
    assert events(kept, at) == (found, [])


def test_a_long_one_is_read_while_its_entry_is_kept() -> None:
    text = one(**LONG).fields[1]
    assert events(letter(text[:RAW_BYTES_MAX]), entry(b"json", text)) == ([LONG], [])
    (new,) = events(letter(text[:RAW_BYTES_MAX]), None)[1]
    assert new.reason.endswith("not kept any more, and its text is too long to be kept whole")


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (letter(b"key a amount x"), "its entry is not kept any more, and its text is no JSON"),
        (letter(b"key a amount 1", WHOLE), "its text is no JSON object"),
        (letter(b'{"key": "a", "amount": "many"}', b"3"), "replayed by ann: not an event: "),
    ],
)
def test_what_cannot_be_read_again_is_a_new_letter_of_the_same_event(
    kept: KeptText, why: str
) -> None:
    found, (new,) = events(kept, None)
    index = int(kept["index"]) if kept["index"] else None
    assert (found, new.entry_id, new.index, new.raw) == ([], "7-1", index, kept["raw"])
    assert why in new.reason and new.reason.startswith("replayed by ann: ")


def test_of_a_whole_entry_only_what_cannot_be_read_is_a_letter_again() -> None:
    found, (new,) = events(letter(b" ".join(LINES), WHOLE), entry(*LINES))
    assert found == [A, B]
    assert (new.index, new.raw) == (1, b"[]")
    many = lines(*[b"[]"] * (UNREAD_MAX + 1), A).fields
    found, (new,) = events(letter(b" ".join(many), WHOLE), entry(*many))
    assert (found, new.index) == ([], None)
    assert new.reason == "replayed by ann: more than 1,000 of its events cannot be read"
