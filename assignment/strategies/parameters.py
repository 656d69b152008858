"""What strategies can be told beside members and partitions: read from JSON values, and refused by
name and value.

Partitions are named compactly, so that a person can type them: 3, "0-5", "flights:3", "flights:0-5"
or ["flights", 3]; without a topic it is the only topic there is.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from assignment.errors import InvalidInput

N = TypeVar("N", int, float)
NUMBER_MAX = 2**31 - 1  # partitions are numbered by 32-bit integers inside
_RANGE = re.compile(r"(?:(?P<topic>.+):)?(?P<first>\d{1,10})(?:-(?P<last>\d{1,10}))?", re.DOTALL)


class Span(NamedTuple):
    """Partitions first to last, both included, of a topic; None: of the only one."""

    topic: str | None
    first: int
    last: int

    def __str__(self) -> str:
        numbers = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return numbers if self.topic is None else f"{self.topic}:{numbers}"


@dataclass(frozen=True, slots=True)
class NoParameters:
    NAMES: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """InvalidInput when there are any."""
        only(values, cls.NAMES)
        return cls()


def only(values: Mapping[str, Any], names: Collection[str], required: Iterable[str] = ()) -> None:
    """InvalidInput names those that are not among `names`, and required ones that are absent."""
    unknown = sorted(repr(name) for name in values if name not in names)
    if unknown:
        known = f"known are {', '.join(names)}" if names else "this strategy takes none"
        raise InvalidInput(f"parameter {', '.join(unknown)} is not known; {known}")
    missing = [name for name in required if name not in values]
    if missing:
        raise InvalidInput(f"parameter {', '.join(missing)} is missing")


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is {value!r:.80}, not true or false")
    return value


def whole(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{name} is {value!r:.80}, not a whole number")
    return _within(name, value, least, most)


def number(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{name} is {value!r:.80}, not a number")
    return float(_within(name, value, least, most))


def _within(name: str, value: N, least: float, most: float) -> N:
    if not least <= value <= most:  # nor is what is no number at all
        raise InvalidInput(f"{name} {value!r:.80} is not within {least} and {most}")
    return value


def weight(name: str, value: Any) -> float:
    """A finite number of at least 0."""
    return number(name, value, 0, WEIGHT_MAX)


WEIGHT_MAX = 1e15  # floats count whole numbers exactly up to here


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} is {value!r:.80}, not an object")
    return value


def items(name: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"{name} is {value!r:.80}, not a list")
    return value


def text(name: str, value: Any) -> str:
    """Not empty, and fit to be written out: half a character is not."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{name} is {value!r:.80}, not a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name} {value!r:.80} is not Unicode") from error
    return value


def text_or_none(name: str, value: Any) -> str | None:
    return None if value is None or value == "" else text(name, value)


def texts(name: str, value: Any) -> tuple[str, ...]:
    return tuple(text(f"one of {name}", one) for one in items(name, value))


def spans(name: str, value: Any) -> tuple[Span, ...]:
    """A list of partitions in any of the forms above."""
    return tuple(span(name, item) for item in items(name, value))


def span(name: str, value: Any) -> Span:
    match value:
        case str():
            return _range(name, value)
        case bool():
            pass
        case int() if 0 <= value <= NUMBER_MAX:
            return Span(None, value, value)
        case [str(topic), int(number)] if 0 <= number <= NUMBER_MAX and number is not True:
            return Span(topic, number, number)
    raise InvalidInput(f"{name}: {value!r:.80} is not a partition, like 3, '0-5' or ['flights', 3]")


def _range(name: str, text: str) -> Span:
    found = _RANGE.fullmatch(text)
    if not found:
        raise InvalidInput(f"{name}: {text!r:.80} is not a partition or a range, like '3' or '0-5'")
    first = int(found["first"])
    last = first if found["last"] is None else int(found["last"])
    if not first <= last <= NUMBER_MAX:
        raise InvalidInput(f"{name}: {text!r:.80} ends before it starts, or above {NUMBER_MAX}")
    return Span(found["topic"], first, last)
