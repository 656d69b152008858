"""A large group, read at one moment by the script read_group and plain commands beside it.

What a script reads is made into Lua's values and back, which costs Redis some four times the plain
commands, and nobody else is answered meanwhile: 175 ms in the place of 40 at 100,000 partitions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from assignment import wire
from assignment.columns import Places
from assignment.scripts.group_read import NO_TICK, GroupRead, Purpose, Ticker, group_in, read_group
from assignment.scripts.values import Call, Raw, texts_of
from assignment.wire import GroupKeys

GRANTS_MAX = 5_000  # that a script reads: some milliseconds
LOCKS_AT_ONCE = 1_000  # of one command
_PLACE_OF = {"grants": 8, "offsets": 10, "applied": 11, "snapshots": 12}  # in the answer
_LOCKS = 9


@dataclass(frozen=True, slots=True)
class Large:
    """How to read it: `call` and then `commands`, as one transaction."""

    call: Call[Any]
    stream: str
    partitions: int
    rows: tuple[str, ...]  # hashes of the group

    def commands(self, group: str) -> Iterator[tuple[str, ...]]:
        keys = GroupKeys(group)
        for name in self.rows:
            yield "HGETALL", getattr(keys, name)
        lock = keys.lock(f"{self.stream}:")
        for first in range(0, self.partitions, LOCKS_AT_ONCE):
            some = range(first, min(first + LOCKS_AT_ONCE, self.partitions))
            yield "MGET", *map(lock.__add__, map(str, some))

    def read(self, answers: Sequence[Raw]) -> GroupRead | None:
        """What came of them. None: the script alone can read it, since partitions were granted that
        the stream does not have, as its settings are. Raises Damaged.
        """
        raw, found = list(answers[0]), answers[1:]
        for name, row in zip(self.rows, found, strict=False):
            raw[_PLACE_OF[name]] = row
        raw[_LOCKS] = found[len(self.rows) :]
        try:
            return group_in(raw, self._locks_of)
        except _Strays:
            return None

    def _locks_of(self, pieces: Sequence[Any], granted: Places) -> list[bytes | None]:
        """Asked for by number, of all partitions of the stream."""
        is_of_stream = granted.stream == self.stream and not granted.others
        if len(granted) and not (is_of_stream and granted.number.max() < self.partitions):
            raise _Strays
        by_number: list[bytes | None] = list(chain.from_iterable(pieces))
        return list(map(by_number.__getitem__, granted.number.tolist()))


class _Strays(Exception):
    """Partitions were granted that the stream does not have."""


def read_unless_large(purpose: Purpose, ticker: Ticker = NO_TICK) -> Call[GroupRead | Large]:
    """As `read_group`; of a group of more than GRANTS_MAX grants only how to read it."""
    asked = read_group(purpose, ticker, str(GRANTS_MAX))

    def read(raw: Raw) -> GroupRead | Large:
        match raw:
            case [b"large" | "large", settings, rows]:
                stored = wire.parse_settings(settings.decode())
                apart = read_group(purpose, ticker, "apart")
                return Large(apart, stored.stream, stored.partitions, tuple(texts_of(rows)))
        return asked.read(raw)

    return Call(asked.script, asked.args, read)
