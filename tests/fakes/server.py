"""The fake server: keys and values as Redis keeps them, a settable clock, runs that end."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from agent.store.door import Command
from assignment.scripts import Raw

Id = tuple[int, int]
Entry = tuple[Id, dict[str, bytes]]
Hashes = dict[str, dict[str, bytes]]
Streams = dict[str, list[Entry]]
Scores = dict[str, dict[str, int]]
Locks = dict[str, tuple[bytes, int]]
Kept = tuple[Hashes, Streams, Scores, Locks]
ID = itemgetter(0)


def b(value: str | bytes | int) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def t(value: str | bytes | int) -> str:
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)


class FakeRedis:
    """The server: its data, its clock, its run. Any number of FakeDoors lead to it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms
        self.starts = 0
        self.down = False
        self.wipe()

    def wipe(self) -> None:
        """Everything is lost, and it runs anew."""
        self.hashes: Hashes = {}
        self.streams: Streams = {}
        self.scores: Scores = {}
        self.locks: Locks = {}
        self.restart()

    def restart(self, kept: Kept | None = None) -> None:
        """Runs anew with all it had, or with only what it had when `kept` was taken."""
        self.starts += 1
        self.run_id = f"{self.starts:040x}"
        if kept:
            self.hashes, self.streams, self.scores, self.locks = kept

    def kept(self) -> Kept:
        """As it would be read from disk later; for one restart."""
        return (
            {key: dict(values) for key, values in self.hashes.items()},
            {key: list(entries) for key, entries in self.streams.items()},
            {key: dict(values) for key, values in self.scores.items()},
            dict(self.locks),
        )

    def advance(self, ms: int) -> None:
        self.now_ms += ms

    # --- data -------------------------------------------------------------------------------------

    def hash(self, key: str) -> dict[str, bytes]:
        return self.hashes.setdefault(key, {})

    def lock(self, key: str) -> bytes | None:
        """Live up to and including its last millisecond, as in Redis.

        Looking at one that ran out removes it: a clock that is set back does not bring it to life.
        """
        value, until_ms = self.locks.get(key, (None, 0))
        if self.now_ms <= until_ms:
            return value
        self.locks.pop(key, None)
        return None

    def xadd(self, key: str, fields: dict[str, Any]) -> bytes:
        entries = self.streams.setdefault(key, [])
        last = entries[-1][0] if entries else (0, 0)
        entry_id = max((self.now_ms, 0), (last[0], last[1] + 1))
        entries.append((entry_id, {name: b(value) for name, value in fields.items()}))
        return b(f"{entry_id[0]}-{entry_id[1]}")

    def read(self, command: Command) -> Raw:
        name, *rest = (t(part) for part in command)
        return READS[name](self, *rest)

    def hgetall(self, key: str) -> list[bytes]:
        return flat(self.hashes.get(key, {}).items())

    def hget(self, key: str, field: str) -> bytes | None:
        return self.hashes.get(key, {}).get(field)

    def hlen(self, key: str) -> int:
        return len(self.hashes.get(key, {}))

    def hmget(self, key: str, *names: str) -> list[bytes | None]:
        return [self.hget(key, name) for name in names]

    def hsetnx(self, key: str, field: str, value: str) -> int:
        if field in self.hash(key):
            return 0
        self.hash(key)[field] = b(value)
        return 1

    def xrange(self, key: str, low: str, high: str, *count: str) -> list[list[Any]]:
        return [shown(entry) for entry in self._between(key, low, high)[: limit(count)]]

    def xrevrange(self, key: str, high: str, low: str, *count: str) -> list[list[Any]]:
        return [shown(entry) for entry in self._between(key, low, high)[::-1][: limit(count)]]

    def ids_after(self, key: str, low: Id, high: Id | None = None) -> list[Id]:
        """Ids of entries in (low, high], or of all above low."""
        entries = self.streams.get(key, [])
        first = bisect_right(entries, tuple(low), key=ID)
        last = len(entries) if high is None else bisect_right(entries, tuple(high), key=ID)
        return [entry_id for entry_id, _ in entries[first:last]]

    def _between(self, key: str, low: str, high: str) -> list[Entry]:
        entries = self.streams.get(key, [])
        first = 0 if low == "-" else place(entries, low)
        last = len(entries) if high == "+" else bisect_right(entries, id_of(high), key=ID)
        return entries[first:last]


READS: dict[str, Callable[..., Raw]] = {
    "HGETALL": FakeRedis.hgetall,
    "HGET": FakeRedis.hget,
    "HLEN": FakeRedis.hlen,
    "HMGET": FakeRedis.hmget,
    "HSETNX": FakeRedis.hsetnx,
    "XRANGE": FakeRedis.xrange,
    "XREVRANGE": FakeRedis.xrevrange,
}


def flat(items: Iterable[tuple[str, bytes]]) -> list[bytes]:
    return [part for name, value in items for part in (b(name), value)]


def id_of(text: str) -> Id:
    ms, _, seq = text.partition("-")
    return int(ms), int(seq or 0)


def place(entries: list[Entry], low: str) -> int:
    """Of the first entry that a range from `low` has; "(id" leaves that id out."""
    if low.startswith("("):
        return bisect_right(entries, id_of(low[1:]), key=ID)
    return bisect_left(entries, id_of(low), key=ID)


def limit(count: tuple[str, ...]) -> int | None:
    return int(count[1]) if count else None


def shown(entry: Entry) -> list[Any]:
    (ms, seq), fields = entry
    return [b(f"{ms}-{seq}"), flat(fields.items())]
