"""What the fake server keeps under a key, and how replies and refusals of Redis look."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ResponseError

Id = tuple[int, int]
Entry = tuple[Id, tuple[bytes, ...]]  # id, and names and values by turns
ID_MAX = 2**64 - 1
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


class Status(bytes):
    """A status reply, which Lua gets as {ok = ...}; clients read it as they read a text."""


OK = Status(b"OK")
Reply = bytes | int | None | Sequence[Any]


class Scores(dict[bytes, float]):
    """A sorted set: member -> score."""

    def ordered(self) -> list[tuple[bytes, float]]:
        return sorted(self.items(), key=lambda item: (item[1], item[0]))


class Nested(list[Any]):
    """A reply with lists, or numbers, in it."""


@dataclass(slots=True)
class Stream:
    entries: list[Entry] = field(default_factory=list)
    last_id: Id = (0, 0)
    added: int = 0  # entries, ever
    groups: set[bytes] = field(default_factory=set)  # of consumers

    def copied(self) -> "Stream":
        return Stream(list(self.entries), self.last_id, self.added, set(self.groups))


Hash = dict[bytes, bytes]
Value = bytes | Hash | Scores | Stream


def copied(value: Value) -> Value:
    """Entries of a stream are shared: nothing changes one."""
    if isinstance(value, bytes):
        return value
    return value.copied() if isinstance(value, Stream) else type(value)(value)


def b(value: str | bytes | int) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def as_bytes(values: Iterable[str | bytes | int]) -> list[bytes]:
    return [
        v.encode() if type(v) is str else v if type(v) is bytes else str(v).encode() for v in values
    ]


def t(value: str | bytes | int) -> str:
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)


def number(text: bytes, otherwise: str = "ERR value is not an integer or out of range") -> int:
    """Refuses what Redis refuses: blanks, signs and zeros in front, more than 64 bits."""
    digits = text[1:] if text[:1] == b"-" else text
    plain = digits.isdigit() and (digits[:1] != b"0" or text == b"0")
    if not plain or not -(2**63) <= int(text) < 2**63:
        raise ResponseError(otherwise)
    return int(text)


def score_text(score: float | None) -> bytes | None:
    if score is None:
        return None
    return b"%d" % score if score.is_integer() else repr(score).encode()


def id_of(text: str | bytes, seq: int = 0) -> Id:
    """`seq`: for an id that has none."""
    ms, dash, rest = t(text).partition("-")
    if ms.isdecimal() and (not dash or rest.isdecimal()):
        found = int(ms), int(rest) if dash else seq
        if max(found) <= ID_MAX:
            return found
    raise ResponseError("ERR Invalid stream ID specified as stream command argument")


def id_text(entry_id: Id) -> bytes:
    return b"%d-%d" % entry_id
