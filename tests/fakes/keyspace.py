"""The data of a fake server: keys, when they expire, and a journal that leads to older states."""

import inspect
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from redis.exceptions import ResponseError

from tests.fakes import streams
from tests.fakes.commands import COMMANDS
from tests.fakes.values import WRONG_TYPE, Reply, Scores, Stream, Value, copied

assert streams  # their commands are in COMMANDS by now
V = TypeVar("V", bytes, Scores, Stream)
Call = Sequence[bytes]  # name and arguments
Data = tuple[dict[bytes, Value], dict[bytes, int]]
STATE_EVERY = 2_000  # transactions: copying a whole state is dear, playing commands again is slow
STATES = 3


class Keyspace:
    """What commands work on. Time is whoever's who sets `now_ms`."""

    version: tuple[int, ...] = (7, 2, 4)

    def __init__(self, now_ms: int, data: Data | None = None) -> None:
        self.now_ms = now_ms
        self.keys, self.expires = data or ({}, {})

    def live(self, key: bytes) -> Value | None:
        """Live up to and including its last millisecond, as in Redis.

        Looking at one that ran out removes it: a clock that is set back does not bring it to life.
        """
        if key in self.expires and self.now_ms > self.expires[key]:
            self.expired(key)
            return None
        return self.keys.get(key)

    def of_kind(self, key: bytes, kind: type[V]) -> V | None:
        """Refuses what is of another kind."""
        value = self.live(key)
        if value is None or type(value) is kind:
            return value
        raise ResponseError(WRONG_TYPE)

    def remove(self, key: bytes) -> bool:
        there = self.live(key) is not None
        Keyspace.expired(self, key)
        return there

    def expired(self, key: bytes) -> None:
        self.keys.pop(key, None)
        self.expires.pop(key, None)

    def execute(self, call: Call) -> Reply:
        command = COMMANDS.get(call[0])
        if command is None:
            return self.execute((known_name(call[0]), *call[1:]))
        try:
            return command(self, *call[1:])
        except TypeError as error:
            demand_count(call, error)
            raise

    def data(self) -> Data:
        return {key: copied(value) for key, value in self.keys.items()}, dict(self.expires)


def known_name(name: bytes) -> bytes:
    """As it stands in COMMANDS, however it was written."""
    if (found := name.upper()) == name or found not in COMMANDS:
        raise ResponseError(f"ERR unknown command '{name.decode()}'")
    return found


def demand_count(call: Call, error: TypeError) -> None:
    """Was it called with another number of arguments than it takes?"""
    try:
        inspect.signature(COMMANDS[call[0]]).bind(*call)
    except TypeError:
        name = call[0].decode().lower()
        text = f"ERR wrong number of arguments for '{name}' command"
        raise ResponseError(text) from error


@dataclass(slots=True)
class Journal:
    """Every transaction since the oldest of some states, as a server's append-only file has it."""

    states: list[tuple[int, Data]] = field(default_factory=lambda: [(0, ({}, {}))])
    transactions: list[tuple[int, list[Call]]] = field(default_factory=list)  # when, and what

    @property
    def position(self) -> int:
        """How many transactions there were."""
        return self.states[0][0] + len(self.transactions)

    def note(self, keyspace: Keyspace, calls: list[Call]) -> None:
        self.transactions.append((keyspace.now_ms, calls))
        if self.position - self.states[-1][0] >= STATE_EVERY:
            self.states.append((self.position, keyspace.data()))
            if len(self.states) > STATES:
                del self.transactions[: self.states[1][0] - self.states[0][0]]
                del self.states[0]

    def calls_after(self, position: int) -> int:
        return sum(len(calls) for _, calls in self.transactions[position - self.states[0][0] :])

    def back_to(self, position: int) -> Data:
        """The state of then; what came after is forgotten."""
        first = self.states[0][0]
        assert first <= position <= self.position, f"{position} is not in {first}..{self.position}"
        self.states = [state for state in self.states if state[0] <= position]
        del self.transactions[position - first :]
        began, state = self.states[-1]
        again = Keyspace(0, Keyspace(0, state).data())
        for at_ms, calls in self.transactions[began - first :]:
            again.now_ms = at_ms
            for call in calls:
                with suppress(ResponseError):  # as it was then
                    again.execute(call)
        return again.keys, again.expires
