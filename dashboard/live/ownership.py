"""Who holds which lock, one row a partition, as arrays that the log of the locks brings forward.

Pure. Rows are read whole once; from there on the events say all, and rows that are read again check
it. An event counts when it follows the last one: `seq` has no gaps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assignment.bounds import MOMENT_MAX
from assignment.columns import wholes
from assignment.scripts.lock_events import LockEvent
from assignment.scripts.rows import UNREADABLE, Since
from assignment.scripts.values import fields_of
from assignment.wire import parse_grant, parse_lock

NOBODY = -1
Whole = NDArray[np.int64]
Index = NDArray[np.int32]
Flags = NDArray[np.bool_]


class LogGap(Exception):
    """The log does not lead from what is known to what is: it was trimmed, or is another one."""


class Names:
    """Members by number, in the order in which they were first heard of; none is taken back, so
    that who compares two moments compares numbers.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def index(self, name: str) -> int:
        number = self._numbers.setdefault(name, len(self.texts))
        if number == len(self.texts):
            self.texts.append(name)
        return number


class Ownership:
    """`owner`: a number of `names`, NOBODY without a live lock. `fence`, and `since` when it was
    granted (ms): 0 where there is none, or it is not known.
    """

    def __init__(self, stream: str, partitions: int, names: Names | None = None) -> None:
        self.stream, self.size, self.names = stream, partitions, names or Names()
        self.seq = 0  # of the last event
        self.owner: Index = np.full(partitions, NOBODY, np.int32)
        self.fence: Whole = np.zeros(partitions, np.int64)
        self.since: Whole = np.zeros(partitions, np.int64)
        self._locks: list[bytes | None] = [None] * partitions  # as the scripts write them
        self._granted: list[bytes | None] = [None] * partitions  # the same of `since`

    def put(self, number: int, member: str, fence: int, since_ms: int) -> None:
        self.owner[number] = self.names.index(member)
        self.fence[number], self.since[number] = fence, since_ms
        self._locks[number] = f"{member}/{fence}".encode()
        self._granted[number] = f"{fence} {since_ms}".encode()

    def clear(self, number: int) -> None:
        self.owner[number], self.fence[number], self.since[number] = NOBODY, 0, 0
        self._locks[number] = None

    def apply(self, event: LockEvent) -> None:
        """Raises LogGap when it does not follow the last one."""
        if event.seq != self.seq + 1:
            raise LogGap(f"event {event.seq} follows {self.seq}")
        self.seq = event.seq
        number = event.partition.number
        if event.partition.stream != self.stream or number >= self.size:
            return  # of a group by this name that there was before
        if event.kind == "acquired":
            self.put(number, event.member_id, event.fence, event.at_ms)
        elif event.kind != "fenced" and self.fence[number] == event.fence:
            self.clear(number)

    def take(
        self,
        first: int,
        locks: Sequence[bytes | None],
        grants: Sequence[bytes | None],
        since: Sequence[bytes | None],
    ) -> list[int]:
        """Rows as Redis has them, from partition `first`; answers which ones are another than the
        events say. A lock that ran out is no difference: its event comes with the next sweep.
        """
        wrong: list[int] = []
        part = slice(first, first + len(locks))
        if self._locks[part] == locks and self._granted[part] == since:
            return wrong
        if not any(self._locks[part]) and (found := _all(locks, since)) is not None:
            self._locks[part] = locks
            return self._begin(first, found, since)
        for number, lock in enumerate(locks, first):
            known, at = self._locks[number], number - first
            if lock == known:
                if lock is not None and since[at] != self._granted[number]:
                    self._read(number, lock, since[at])
                continue
            if lock is not None:
                self._read(number, lock, since[at])
            elif known is not None and _is_open(grants[at], known):
                self.clear(number)  # it ran out
                continue
            else:
                self.clear(number)
            wrong.append(number)
        return wrong

    def _begin(self, first: int, found: "_All", since: Sequence[bytes | None]) -> list[int]:
        """As `take`, of partitions of which no lock was known."""
        number = found.at + first
        self.owner[number] = [self.names.index(name) for name in found.members]
        self.fence[number], self.since[number] = found.fence, found.since_ms
        wrong: list[int] = number.tolist()
        for at in wrong:
            self._granted[at] = since[at - first]
        return wrong

    def _read(self, number: int, lock: bytes, since: bytes | None) -> None:
        member, fence = parse_lock(lock.decode())
        granted = _since_of(since)
        at_ms = granted.at_ms if granted and granted.fence == fence else 0
        self.put(number, member, fence, at_ms)
        self._granted[number] = since


class _All(NamedTuple):
    """Rows with a lock: `at` [n] places, in order; `since_ms` [n] as in Ownership."""

    at: NDArray[np.int64]
    members: list[str]
    fence: Whole
    since_ms: Whole


def _all(locks: Sequence[bytes | None], since: Sequence[bytes | None]) -> _All | None:
    """All at once; None where one cannot be read so."""
    at = [place for place, lock in enumerate(locks) if lock is not None]
    try:
        members, fences = fields_of([lock for lock in locks if lock is not None], 2, "/")
        granted, times = fields_of([since[place] or b"" for place in at], 2)
        fence, of = wholes([*map(int, fences)]), wholes([*map(int, granted)])
        at_ms = wholes([*map(int, times)], MOMENT_MAX + 1)
    except UNREADABLE:
        return None
    return _All(np.array(at, np.int64), members, fence, np.where(of == fence, at_ms, 0))


def _since_of(raw: bytes | None) -> Since | None:
    """None: not known, also where it cannot be read."""
    try:
        return Since.parse(raw) if raw else None
    except UNREADABLE:
        return None


def _is_open(grant: bytes | None, lock: bytes) -> bool:
    """Whether the grant is that of the lock and no event has ended it."""
    if grant is None:
        return False
    found = parse_grant(grant.decode())
    return found.ended is None and f"{found.member_id}/{found.fence}".encode() == lock
