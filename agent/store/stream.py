"""A stream of events in Redis: its partitions' entries, and the script that appends to them."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from agent.store.door import Door, RedisDoor, ScriptCall, Timeouts
from assignment.errors import InvalidInput
from assignment.scripts.values import Arguments, Raw
from assignment.types import PARTITIONS_MAX, START, Offset, valid_name
from assignment.wire import StreamKeys


class Entry(NamedTuple):
    """One entry as it lies there: `fields` is flat (name, value, name, value ...)."""

    entry_id: bytes
    fields: Sequence[bytes]


class StreamStore:
    """Raises StoreUnavailable (ask again) and InvariantBroken (a bug), nothing of Redis' client."""

    def __init__(self, door: Door, stream: str) -> None:
        self.door = door
        self.stream = valid_name("stream", stream)
        self.keys = StreamKeys(stream)

    @classmethod
    def connect(cls, url: str, stream: str, timeouts: Timeouts | None = None) -> Self:
        return cls(RedisDoor(url, timeouts), stream)

    def close(self) -> None:
        self.door.close()

    def partitions(self) -> int:
        """Raises InvalidInput: no such stream, or its meta holds no number."""
        stored = self.door.ask("HGET", self.keys.meta, "partitions")
        if stored is None:
            raise InvalidInput(
                f"stream {self.stream!r} is not there: {self.keys.meta} has no partitions"
            )
        if not stored.isdigit() or not 1 <= int(stored) <= PARTITIONS_MAX:
            raise InvalidInput(f"{self.keys.meta} says {stored!r} partitions")
        return int(stored)

    def ensure(self, partitions: int) -> None:
        """Makes the stream. Raises InvalidInput: it is there with another number of partitions."""
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise InvalidInput(f"partitions {partitions} is not within 1 and {PARTITIONS_MAX}")
        self.door.ask("HSETNX", self.keys.meta, "partitions", partitions)
        if (there := self.partitions()) != partitions:
            raise InvalidInput(f"stream {self.stream!r} has {there} partitions, not {partitions}")

    def read(
        self, number: int, after: Offset, count: int, upto: Offset | None = None
    ) -> list[Entry]:
        """At most `count` entries in (after, upto], oldest first; `upto` None: to the end."""
        last = str(upto) if upto else "+"
        raw = self.door.ask("XRANGE", self.keys.entries(number), f"({after}", last, "COUNT", count)
        return [Entry(entry_id, fields) for entry_id, fields in raw]

    def last_offset(self, number: int) -> Offset:
        """Of the last entry; START when there is none."""
        raw = self.door.ask("XREVRANGE", self.keys.entries(number), "+", "-", "COUNT", 1)
        return Offset.parse(raw[0][0].decode()) if raw else START

    def run_script(self, name: str, keys: Sequence[str], args: Arguments) -> Raw:
        """A script of the stream's slot, `append`. The raw answer."""
        return self.door.run(ScriptCall(name, keys, args))
