"""Rows of a group's keys, each read by itself: what cannot be is left out, and why is known."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

import msgspec

from assignment.bounds import moment_of, shortened, whole_of
from assignment.scripts.values import Raw
from assignment.types import Partition

WHY_MAX = 200  # characters of why something cannot be read
UNREADABLE = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(OverflowError, RecursionError, msgspec.MsgspecError),
)  # what the readers below raise of what no script has written
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
