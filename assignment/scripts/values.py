"""A call of a script, and the small readers and checks that arguments and answers share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from assignment import bounds
from assignment.errors import InvalidInput
from assignment.types import valid_name

Arguments = list[str | bytes]
Raw = Any  # what a Redis client gave: bytes, text, whole numbers, None, and lists of them

FENCE_MAX = 2**53 - 1  # Lua's numbers are exact up to here
INCARNATION_MAX = bounds.INCARNATION_MAX
TTL_MAX_MS = 3_600_000
# Partitions of one call that gives locks, takes them or changes their state: about 1 ms of Redis.
# Where all members of a group do so at once, each call of anybody waits for one of each of them.
AT_ONCE = 100
T = TypeVar("T")


class Call(msgspec.Struct, Generic[T], frozen=True):
    """One run of a text of assignment/lua on a group; `read` makes a value of what it answers."""

    script: str
    args: Arguments
    read: Callable[[Raw], T]


def text_of(value: Raw) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def texts_of(values: Sequence[Raw]) -> list[str]:
    return [text_of(v) for v in values]


def parts(some: Sequence[T]) -> Iterator[Sequence[T]]:
    return (some[first : first + AT_ONCE] for first in range(0, len(some), AT_ONCE))


def number_of(value: Raw) -> int:
    return int(value or 0)


def pairs_of(values: Raw) -> list[tuple[str, bytes]]:
    """Names and raw values of a flat list, or of a mapping as a RESP3 client gives it."""
    is_mapping = isinstance(values, Mapping)
    pairs = values.items() if is_mapping else zip(values[::2], values[1::2], strict=True)
    return [
        (
            name.decode() if isinstance(name, bytes) else str(name),
            value if isinstance(value, bytes) else bytes_of(value),
        )
        for name, value in pairs
    ]


class Columns(NamedTuple):
    """The same apart: [n] names, [n] values."""

    names: list[str]
    values: list[bytes]


def columns_of(values: Raw) -> Columns:
    is_mapping = isinstance(values, Mapping)
    names, found = (values, values.values()) if is_mapping else (values[::2], values[1::2])
    return Columns(_texts(list(names)), _all_bytes(list(found)))


def _texts(names: list[Any]) -> list[str]:
    if names and set(map(type, names)) == {bytes}:
        texts = b"\n".join(names).decode().split("\n")
        if len(texts) == len(names):  # in none is a line's end
            return texts
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def _all_bytes(values: list[Any]) -> list[bytes]:
    if set(map(type, values)) == {bytes}:
        return values
    return [v if isinstance(v, bytes) else bytes_of(v) for v in values]


def fields_of(values: Sequence[bytes], count: int, between: str = " ") -> list[list[str]]:
    """[count][n] the parts of each value. ValueError when one has more or fewer."""
    return parts_of(b"\n".join(values).decode(), len(values), count, between)


def parts_of(lines: str, values: int, count: int, between: str = " ") -> list[list[str]]:
    """The same of so many values, one a line."""
    if not values:
        return [[]] * count
    width, ends = count + 1, values - 1
    parts = lines.replace("\n", f"{between}\n{between}").split(between)
    is_whole = len(parts) == values * width - 1 and lines.count("\n") == ends
    if not is_whole or parts[count::width].count("\n") != ends:
        raise ValueError(f"a value has not {count} parts")
    return [parts[place::width] for place in range(count)]


def bytes_of(value: Raw) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def flag(value: bool) -> str:
    return "1" if value else "0"


def check_within(name: str, value: int, low: int, high: int) -> None:
    """Raises InvalidInput outside of [low, high]."""
    if not low <= value <= high:
        raise InvalidInput(f"{name} {value} is not within {low} and {high}")


def within(name: str, value: int, low: int, high: int) -> str:
    """The number as text. Raises InvalidInput outside of [low, high]."""
    check_within(name, value, low, high)
    return str(value)


def speaker_text(speaker: str) -> str:
    """As wire.speaker_of makes it."""
    for part in speaker.split("@", 1):
        valid_name("member", part)
    return speaker


def fence_text(fence: int) -> str:
    return within("fence", fence, 1, FENCE_MAX)


def ttl_text(ttl_ms: int) -> str:
    return within("ttl_ms", ttl_ms, 1, TTL_MAX_MS)


def epoch_text(name: str, epoch: int) -> str:
    return within(name, epoch, 0, FENCE_MAX)
