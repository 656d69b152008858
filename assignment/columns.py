"""What is known of many partitions, in arrays with a row for each: names become numbers once, where
they are read, and a value is made only when somebody asks for it.

Pure. Knows nothing of what the rows mean.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise, repeat
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from assignment.bounds import WHOLE_MAX
from assignment.errors import InvalidInput
from assignment.names import DIGITS_MAX, Partition

NOBODY = -1
Numbers = npt.NDArray[np.int64]
_MADE = partial(tuple.__new__, Partition)  # of (stream, number): as Partition._make, in C alone
Flags = npt.NDArray[np.bool_]
_TENS = 10 ** np.arange(1, DIGITS_MAX + 1, dtype=np.int64)
T = TypeVar("T")


class Places(Collection[Partition]):
    """Partitions in an order. `number` [n]: of those of `stream`; -1 - k: the k-th of `others`."""

    __slots__ = ("number", "others", "stream")

    def __init__(self, stream: str, number: Numbers, others: Sequence[Partition] = ()) -> None:
        self.stream, self.number, self.others = stream, number, others

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> Self:
        found = list(partitions)
        streams, numbers = {p.stream for p in found}, [p.number for p in found]
        if len(streams) <= 1 and (not found or 0 <= min(numbers) <= max(numbers) < WHOLE_MAX):
            return cls("".join(streams), np.array(numbers, np.int64))
        stream = found[0].stream
        is_of = [p.stream == stream and 0 <= p.number < WHOLE_MAX for p in found]
        others = [p for p, is_one in zip(found, is_of, strict=True) if not is_one]
        strays = iter(range(-1, -1 - len(others), -1))
        numbers = [p.number if one else next(strays) for p, one in zip(found, is_of, strict=True)]
        return cls(stream, np.array(numbers, np.int64), others)

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Self:
        """Raises InvalidInput that names one that is none."""
        stream = texts[0].rpartition(":")[0] if texts else ""
        numbers = _numbers_after(f"{stream}:", texts)
        if numbers is None or Partition.parse(texts[0]).stream != stream:
            return cls.of(map(Partition.parse, texts))
        return cls(stream, numbers)

    def __len__(self) -> int:
        return len(self.number)

    def __iter__(self) -> Iterator[Partition]:
        if not self.others:
            return map(_MADE, zip(repeat(self.stream), self.number.tolist(), strict=False))
        numbers = self.number.tolist()
        return (Partition(self.stream, n) if n >= 0 else self.others[-1 - n] for n in numbers)

    def __contains__(self, partition: object) -> bool:
        return any(partition == one for one in self)

    def sorted_texts(self) -> list[str]:
        if self.others:
            return [str(partition) for partition in sorted(self)]
        return [f"{self.stream}:{number}" for number in np.sort(self.number).tolist()]


def _numbers_after(prefix: str, texts: Sequence[str]) -> Numbers | None:
    """The whole numbers behind the prefix that all texts have; None when one is of another form,
    or there are no texts.
    """
    joined = ",".join(texts)
    bare = joined.replace(prefix, "")
    is_before_each = f",{joined}".count(f",{prefix}") == len(texts)
    if not is_before_each or len(joined) - len(bare) != len(texts) * len(prefix):
        return None
    return whole_numbers(bare, len(texts))


def whole_numbers(joined: str, count: int) -> Numbers | None:
    """So many, a comma between two; None unless they are written as whole numbers are, without a
    sign or a leading zero, in at most DIGITS_MAX digits.
    """
    is_apart = not (joined.startswith(",") or joined.endswith(",") or ",," in joined)
    if not (is_apart and joined.isascii() and joined.replace(",", "").isdigit()):
        return None
    numbers = np.fromstring(joined, np.int64, sep=",")
    if numbers.max() >= _TENS[-1]:  # beyond 64 bits: read as the highest
        return None
    digits = count + np.searchsorted(_TENS, numbers, "right").sum()
    return numbers if len(joined) == digits + count - 1 else None  # so many, and no zero leads


def wholes(numbers: Sequence[int], below: int = WHOLE_MAX) -> Numbers:
    """Raises InvalidInput that names the first that is none."""
    if numbers and not (min(numbers) >= 0 and max(numbers) < below):
        wrong = next(number for number in numbers if not 0 <= number < below)
        raise InvalidInput(f"{wrong} is not within 0 and {below}")
    return np.array(numbers, np.int64)


class Rows(Mapping[Partition, T]):
    """`places`: the partition of each row; no two are of the same."""

    places: Places

    @abstractmethod
    def value(self, row: int) -> T: ...

    @cached_property
    def _row_of(self) -> dict[Partition, int]:
        return dict(zip(self.places, range(len(self.places)), strict=True))

    def __getitem__(self, partition: Partition) -> T:
        return self.value(self._row_of[partition])

    def __contains__(self, partition: object) -> bool:
        return partition in self._row_of

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._row_of)

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        return repr(dict(self))


class Owners(Rows[str]):
    """Who has each partition of `stream`: `of` [partitions], index of `names` or NOBODY."""

    def __init__(self, stream: str, names: Sequence[str], of: Numbers) -> None:
        self.stream, self.names, self.of = stream, names, of

    @cached_property
    def places(self) -> Places:  # type: ignore[override]
        return Places(self.stream, np.flatnonzero(self.of != NOBODY))

    def value(self, row: int) -> str:
        owner: int = self.of[self.places.number[row]]
        return self.names[owner]

    def sets(self, every: Sequence[Partition]) -> dict[str, frozenset[Partition]]:
        """By every name. `every` partition, by number: made once, whoever has it."""
        order = np.argsort(self.of, kind="stable")
        bounds = np.searchsorted(self.of[order], np.arange(len(self.names) + 1)).tolist()
        found = list(map(every.__getitem__, order.tolist()))
        return {
            name: frozenset(found[first:end])
            for name, (first, end) in zip(self.names, pairwise(bounds), strict=True)
        }


def counted(owners: Numbers, names: int) -> list[int]:
    """[names] how many each has."""
    found: list[int] = np.bincount(owners + 1, minlength=names + 1)[1:].tolist()
    return found[:names]


class Fences(Rows[int]):
    def __init__(self, places: Places, fence: Numbers) -> None:
        self.places, self.fence = places, fence

    @classmethod
    def of(cls, fences: Mapping[Partition, int]) -> Self:
        if isinstance(fences, cls):
            return fences
        return cls(Places.of(fences), np.array([*fences.values()], np.int64))

    def value(self, row: int) -> int:
        return int(self.fence[row])


def numbered(names: Collection[str]) -> tuple[tuple[str, ...], Numbers]:
    """Each name once, and [n] the index of each."""
    known = tuple(dict.fromkeys(names))
    index = {name: place for place, name in enumerate(known)}
    return known, np.array(list(map(index.__getitem__, names)), np.int64)


def renumbered(names: Iterable[str], among: Iterable[str]) -> Numbers:
    """[names] the index that each has `among` others, or NOBODY."""
    known = {name: index for index, name in enumerate(among)}
    return np.array([known.get(name, NOBODY) for name in names], np.int64)


class Index:
    """A number for each partition: its own for those of `stream` below `size`, higher ones for
    whatever else somebody names.
    """

    def __init__(self, stream: str, size: int) -> None:
        self.stream, self.size = stream, size
        self._others: dict[Partition, int] = {}

    def __len__(self) -> int:
        return self.size + len(self._others)

    def at(self, places: Places) -> Numbers:
        number = places.number
        if not len(number):
            return number
        if self.stream == places.stream and number.min() >= 0 and number.max() < self.size:
            return number
        return np.array([self._at(partition) for partition in places], np.int64)

    def _at(self, partition: Partition) -> int:
        if partition.stream == self.stream and 0 <= partition.number < self.size:
            return partition.number
        return self._others.setdefault(partition, len(self))

    def places(self, at: Numbers) -> Places:
        others = list(self._others)
        return Places(self.stream, np.where(at < self.size, at, self.size - 1 - at), others)

    def mask(self, at: Numbers) -> Flags:
        """[all] which these are."""
        found = np.zeros(len(self), np.bool_)
        found[at] = True
        return found

    def spread(self, at: Numbers, values: npt.NDArray[np.integer], default: int) -> Numbers:
        """[all] the value of each."""
        found = np.full(len(self), default, np.int64)
        found[at] = values
        return found
