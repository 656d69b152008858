"""Dead letters as they lie in Redis: looked at, discarded, or asked to be replayed by a person."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple, Self

from assignment.errors import InvalidInput
from assignment.scripts.values import Arguments, Call, Raw, bytes_of, text_of
from assignment.types import ID_PART_MAX, START, Offset, Partition

SEQUENCE_MAX = ID_PART_MAX - 1
WAITING_MAX = 500  # letters of a partition that wait to be replayed: each plan is told of them
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
class DeadLetter:
    """One malformed event: what it was and why it cannot be read. `index` None: all of its entry,
    which was not read as events.
    """

    reason: str
    entry_id: str
    index: int | None
    raw: bytes

    @property
    def fields(self) -> Arguments:
        index = "" if self.index is None else str(self.index)
        return [self.reason, self.entry_id, index, self.raw]


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """What a consumer committed as one. `index`: of the event in its entry; None for all of the
    entry, or when it cannot be read. `raw`: the beginning of its `size` bytes. `asked_by`: who
    wants it replayed, "" while nobody does; `is_sure`: whether it may be (see Replay.DOUBTED).
    """

    name: LetterId
    reason: str
    entry: str
    index: int | None
    size: int
    raw: bytes
    asked_by: str = ""
    is_sure: bool = True


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
        asked_by=_shown(row[7]),
        is_sure=text_of(row[8]) == "1",
    )


def _shown(raw: Raw) -> str:
    """Of what a member wrote, whatever bytes that are."""
    return bytes_of(raw).decode(errors="replace")


class Discard(IntEnum):
    """What became of a letter."""

    DONE = 1
    GONE = 0
    WAITS = -1  # to be replayed: it stays


def discard(letters: Iterable[tuple[Partition, Offset]]) -> Call[tuple[Discard, ...]]:
    """Of each in their order."""
    return Call("discard", _texts(letters), lambda raw: tuple(Discard(int(one)) for one in raw))


class Replay(StrEnum):
    """What became of asking that a letter be replayed."""

    ASKED = "asked"
    WAITS = "waits"  # it was asked before
    GONE = "gone"
    FULL = "full"  # as many of its partition wait as may
    # An offset was set back, or Redis lost writes: its event may be read again, or was applied.
    DOUBTED = "doubted"


def replay(letters: Iterable[tuple[Partition, Offset]], actor: str) -> Call[tuple[Replay, ...]]:
    """Of each in their order."""
    arguments: Arguments = [actor, str(WAITING_MAX), *_texts(letters)]
    return Call("replay", arguments, lambda raw: tuple(Replay(text_of(one)) for one in raw))


def _texts(letters: Iterable[tuple[Partition, Offset]]) -> Arguments:
    return [text for pair in letters for text in map(str, pair)]
