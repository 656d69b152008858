"""Dead letters as they lie in Redis: looked at, and discarded by a person."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from assignment.errors import InvalidInput
from assignment.scripts.values import Arguments, Call, Raw, bytes_of, text_of
from assignment.types import START, Offset, Partition

SEQUENCE_MAX = 2**64 - 1  # of an id
NUMBER_DIGITS, ID_DIGITS = 6, 20
TEXT_MAX = NUMBER_DIGITS + 2 * ID_DIGITS + len("/-")  # characters of a LetterId


class LetterId(NamedTuple):
    """`at`: its id in the stream of its partition's letters, which begins with when it was kept."""

    number: int
    at: Offset

    def __str__(self) -> str:
        return f"{self.number}/{self.at}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidInput: it is not `number/ms-seq`."""
        number, _, at = text.partition("/")
        if not (number.isascii() and number.isdecimal() and len(number) <= NUMBER_DIGITS):
            raise InvalidInput(f"{text[:80]!r} is no dead letter: it is not partition/ms-seq")
        found = cls(int(number), Offset.parse(at))
        if found.at <= START:
            raise InvalidInput(f"{text[:80]!r} is no dead letter: no id is {START}")
        return found


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """What a consumer committed as one. `index`: of the event in its entry; None when that cannot
    be read. `raw`: the beginning of its `size` bytes.
    """

    name: LetterId
    reason: str
    entry: str
    index: int | None
    size: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class KeptLetters:
    """`next`: below which more may follow; None: these are the last. `at_ms`: when it was so."""

    at_ms: int
    letters: tuple[KeptLetter, ...]
    next: LetterId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Of one look: letters, bytes that are read through to find them, bytes of one raw text."""

    letters: int
    through: int
    raw: int


def dead_letters(
    partitions: Sequence[Partition],
    bounds: Bounds,
    *,
    reason: str = "",
    below: Offset | None = None,
    until_ms: int | None = None,
) -> Call[KeptLetters]:
    """Of the partitions in their order, of each the newest first. `reason`: what it contains, in
    any case of letters. `below`: in the first partition. `until_ms`: none that was kept later.
    """
    latest = "+" if until_ms is None else f"{until_ms}-{SEQUENCE_MAX}"
    first = latest if below is None else f"({below}"
    arguments: Arguments = [str(bounds.letters), str(bounds.through), reason, str(bounds.raw)]
    arguments += [first, latest, *map(str, partitions)]
    return Call("dead_letters", arguments, _kept)


def _kept(raw: Raw) -> KeptLetters:
    at_ms, partition, letter = map(text_of, raw[0])
    goes_on = _name(partition, letter) if partition else None
    return KeptLetters(int(at_ms), tuple(map(_letter, raw[1:])), goes_on)


def _name(partition: str, letter: str) -> LetterId:
    return LetterId(Partition.parse(partition).number, Offset.parse(letter))


def _letter(row: Raw) -> KeptLetter:
    partition, letter, reason, entry, index = (_shown(value) for value in row[:5])
    is_number = index.isascii() and index.isdecimal() and len(index) <= 15
    return KeptLetter(
        name=_name(partition, letter),
        reason=reason,
        entry=entry,
        index=int(index) if is_number else None,
        size=int(row[5]),
        raw=bytes_of(row[6]),
    )


def _shown(raw: Raw) -> str:
    """Of what a member wrote, whatever bytes that are."""
    return bytes_of(raw).decode(errors="replace")


def discard(letters: Iterable[tuple[Partition, Offset]]) -> Call[tuple[bool, ...]]:
    """Whether it was there until now, of each in their order."""
    arguments: Arguments = []
    for partition, letter in letters:
        arguments += [str(partition), str(letter)]
    return Call("discard", arguments, lambda raw: tuple(int(one) == 1 for one in raw))
