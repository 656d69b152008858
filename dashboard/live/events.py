"""Events of a partition as they lie in its stream, for people to look at: few, and cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis

from assignment.types import START, Offset, Partition
from assignment.wire import StreamKeys
from dashboard.live.connection import StoreUnavailable
from dashboard.live.scripts import run_one, script

VALUE_MAX = 2 * 2**20  # bytes of one: producers put no more than one MiB into an entry
ALL_MAX = 4 * 2**20  # of all that is read at once


class Value(NamedTuple):
    """`text` is its beginning when it has more bytes than that."""

    name: bytes
    size: int
    text: bytes

    @property
    def is_cut(self) -> bool:
        return self.size > len(self.text)


class RawEntry(NamedTuple):
    entry_id: Offset
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """`first`: the oldest that is kept; `last`: the last id that the stream ever gave; None where
    there is none. `is_whole`: nothing of it was ever trimmed, as far as is known. `entries` in
    ascending order.
    """

    first: Offset | None
    last: Offset | None
    length: int
    entries: tuple[RawEntry, ...]
    is_whole: bool = False

    @property
    def floor(self) -> Offset:
        """The lowest offset that can be gone on from without missing an event."""
        if self.is_whole or self.last is None:
            return START
        return self.last if self.first is None else just_below(self.first)


def just_below(offset: Offset) -> Offset:
    if offset.seq:
        return Offset(offset.ms, offset.seq - 1)
    return Offset(offset.ms - 1, 2**64 - 1) if offset.ms else START


def look(
    partition: Partition, low: str, high: str, most: int, *, newest_first: bool = False
) -> Piece:
    """At most `most` entries from `low` to `high`, ids as XRANGE takes them; or the last of those.

    Raises StoreUnavailable.
    """
    key = StreamKeys(partition.stream).entries(partition.number)
    asked = (low, high, str(int(newest_first)), most, VALUE_MAX, ALL_MAX)
    try:
        (first, last, length, added), *found = run_one(script("look"), [key], asked)
    except redis.ResponseError as error:
        raise StoreUnavailable(f"{partition}: its stream cannot be read: {error}") from error
    entries = tuple(map(_entry, found))
    in_order = entries[::-1] if newest_first else entries
    is_whole = added != b"" and int(added) == int(length)
    return Piece(_offset(first), _offset(last), int(length), in_order, is_whole)


def _offset(raw: bytes) -> Offset | None:
    return Offset.parse(raw.decode()) if raw else None


def _entry(raw: Sequence[Any]) -> RawEntry:
    fields = zip(raw[1::3], raw[2::3], raw[3::3], strict=True)
    return RawEntry(Offset.parse(raw[0].decode()), tuple(Value(*field) for field in fields))
