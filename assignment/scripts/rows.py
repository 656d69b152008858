"""Rows of a group's keys, each read by itself: what cannot be is left out, and why is known."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from assignment import sizes
from assignment.bounds import MOMENT_MAX, moment_of, shortened, whole_of
from assignment.columns import Numbers, Places, Rows, whole_numbers, wholes
from assignment.scripts.values import Columns, Raw, fields_of
from assignment.types import Offset, Partition

WHY_MAX = 200  # characters of why something cannot be read
UNREADABLE = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(OverflowError, RecursionError, msgspec.MsgspecError),
)  # what the readers below raise of what no script has written
UInt64 = npt.NDArray[np.uint64]
KEPT = sizes.MEMBERS_MAX  # rows of each kind, below a kilobyte each
KEPT_BYTES = 2**10  # what is longer is read anew each time
R = TypeVar("R")
T = TypeVar("T")


def each(
    rows: Iterable[tuple[str, R]], read: Callable[[str, R], T]
) -> tuple[dict[str, T], dict[str, str]]:
    """What could be read, and of what could not be why."""
    found: dict[str, T] = {}
    bad: dict[str, str] = {}
    for name, raw in rows:
        try:
            found[name] = read(name, raw)
        except UNREADABLE as error:
            bad[name] = why_unreadable(error)
    return found, bad


def remembered(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """The same function: of a group's rows most are as they were a second before. What it makes of
    them is not to be changed.
    """
    kept = lru_cache(KEPT)(read)

    def read_or_known(raw: bytes) -> T:
        return kept(raw) if len(raw) <= KEPT_BYTES else read(raw)

    return read_or_known


def why_unreadable(error: Exception) -> str:
    return shortened(str(error) or type(error).__name__, WHY_MAX)


@dataclass(frozen=True, slots=True)
class Applied:
    """Events applied in total, and when the last commit was."""

    total: int
    at_ms: int

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        return cls(*_counted_at(raw))


@dataclass(frozen=True, eq=False)
class AppliedRows(Rows[Applied]):
    """`total` and `at_ms` [n] as in Applied."""

    places: Places
    total: Numbers
    at_ms: Numbers

    @classmethod
    def parse(cls, rows: Columns) -> Self:
        """Raises what is in UNREADABLE."""
        totals, times = (list(map(int, numbers)) for numbers in fields_of(rows.values, 2))
        return cls(Places.parse(rows.names), wholes(totals), wholes(times, MOMENT_MAX + 1))

    def value(self, row: int) -> Applied:
        return Applied(int(self.total[row]), int(self.at_ms[row]))


@dataclass(frozen=True, eq=False)
class Offsets(Rows[Offset]):
    """`ms` and `seq` [n] as in Offset."""

    places: Places
    ms: UInt64
    seq: UInt64

    @classmethod
    def parse(cls, rows: Columns) -> Self:
        """Raises what is in UNREADABLE."""
        parts = fields_of(rows.values, 2, "-")
        ids = [whole_numbers(",".join(numbers), len(numbers)) for numbers in parts]
        found = [one.astype(np.uint64) for one in ids if one is not None]
        if len(found) < len(ids):  # some have more digits than usual, or there are none
            offsets = [Offset.parse(value.decode()) for value in rows.values]
            found = list(np.array(offsets, np.uint64).reshape(-1, 2).T)
        return cls(Places.parse(rows.names), *found)

    def value(self, row: int) -> Offset:
        return Offset(int(self.ms[row]), int(self.seq[row]))


class Since(NamedTuple):
    """When the last fence of a partition was granted."""

    fence: int
    at_ms: int

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        return cls(*_counted_at(raw))


def _counted_at(raw: bytes) -> tuple[int, int]:
    number, at_ms = raw.split(b" ")
    return whole_of(number), moment_of(at_ms)


def read_since(raw: Raw) -> tuple[dict[Partition, Since], dict[str, str]]:
    """From HGETALL of the key `since`, and of what cannot be read why."""
    pairs = ((name.decode(errors="surrogateescape"), value) for name, value in raw.items())
    found, bad = each(pairs, lambda name, value: (Partition.parse(name), Since.parse(value)))
    return dict(found.values()), bad
