"""What a batch of the consumer without Spark holds."""

import json
from collections.abc import Iterator

from agent.pipelines.light import first_of
from assignment.types import START, Offset

ENTRIES = [
    [f"{n}-0".encode(), [b"lines", b"\n".join(json.dumps({"id": n}).encode() for _ in range(3))]]
    for n in range(1, 5)
]


def test_a_batch_is_bounded_by_its_events_and_holds_whole_entries() -> None:
    end, events = first_of(ENTRIES, 7)
    assert (end, [event["id"] for event in events]) == (Offset(2, 0), [1, 1, 1, 2, 2, 2])


def test_a_batch_holds_one_entry_however_large() -> None:
    assert first_of(ENTRIES, 1)[0] == Offset(1, 0)


def test_no_entry_is_read_that_is_not_needed() -> None:
    def entries() -> Iterator[list[object]]:
        yield from ENTRIES[:2]
        raise AssertionError("it read on")

    assert first_of(entries(), 3)[0] == Offset(1, 0)


def test_without_entries_there_is_no_batch() -> None:
    assert first_of([], 7) == (START, [])
