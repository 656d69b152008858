"""Entries of the stream `events` as they are read, in whichever form a client gives them."""

import pytest

from assignment.errors import InvalidInput
from assignment.scripts.lock_events import FIELDS, KINDS, LockEvent, read_event
from assignment.scripts.rows import UNREADABLE
from assignment.types import Partition

STORED = {
    b"seq": b"7", b"type": b"acquired", b"partition": b"flights:3", b"member": b"a",
    b"fence": b"12", b"at_ms": b"5000",
}  # fmt: skip
EVENT = LockEvent(
    entry_id="5000-1",
    seq=7,
    kind="acquired",
    partition=Partition("flights", 3),
    member_id="a",
    fence=12,
    at_ms=5000,
)


def flat(stored: dict[bytes, bytes]) -> list[bytes]:
    return [word for pair in stored.items() for word in pair]


def test_it_is_the_same_event_in_every_form() -> None:
    assert list(STORED) == FIELDS
    turned = dict(reversed(STORED.items()))
    texts = {name.decode(): value.decode() for name, value in STORED.items()}
    for fields in (STORED, turned, flat(STORED), flat(turned), texts, flat({**STORED, b"x": b"y"})):
        assert read_event(b"5000-1", fields) == EVENT, fields


@pytest.mark.parametrize("name", FIELDS)
def test_what_is_missing_is_unreadable(name: bytes) -> None:
    less = {known: value for known, value in STORED.items() if known != name}
    for fields in (less, flat(less)):
        with pytest.raises(UNREADABLE):
            read_event(b"5000-1", fields)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (b"type", b"stolen", "there is no event 'stolen'"),
        (b"seq", b"-1", "seq -1 is not within"),
        (b"fence", b"-1", "fence -1 is not within"),
        (b"at_ms", b"-1", "-1 ms is no time"),
        (b"member", b"a b", "member 'a b' is not a name"),
        (b"partition", b"flights", "'flights' is not of the form stream:number"),
    ],
)
def test_what_no_script_has_written_is_named(name: bytes, value: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        read_event(b"5000-1", flat({**STORED, name: value}))


def test_every_kind_is_read() -> None:
    found = [read_event(b"1-1", flat({**STORED, b"type": kind.encode()})).kind for kind in KINDS]
    assert found == list(KINDS)
