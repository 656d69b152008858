"""Whose turn it is in work that comes again and again, within a share of one processor.

What is due longest comes first. A run ends when its share is used up; only for what is late it goes
on, up to a bound. Names where nothing goes on have a longer period, come last and are never late.
One that takes more than a share by itself has a longer period, too, and comes after the others.
Of all processes one has a run at a time: a second one would do again what the first is at.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from time import monotonic
from zlib import crc32

from dashboard.live import turns
from dashboard.live.connection import own_key
from dashboard.live.leases import lease
from dashboard.live.turns import Turn

# Runs are a period apart, but not to the millisecond: whose turn comes within this part of a period
# has it now, and not a whole period later.
EARLY = 4


class _Kind(Enum):
    """In the order of a run."""

    USUAL, LONG, QUIET = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """`period_ms`, `quiet_ms`: from one turn to the next; `idle_periods` of the former after a turn
    in which there was nothing to do. `share_s`: of each run, and of one that has turns which are
    late, which are due since `late_ms`, `late_share_s`.
    """

    name: str
    period_ms: int
    quiet_ms: int
    share_s: float
    late_ms: int
    late_share_s: float
    idle_periods: int = 1


@dataclass(slots=True, kw_only=True)
class Rota:
    """One run, at `now_ms` by the clock of Redis. `quiet`: names where nothing goes on -> since
    when that is known.
    """

    work: Work
    now_ms: int
    names: Collection[str]
    quiet: Mapping[str, int]
    _began_s: float = 0.0
    _before: dict[str, Turn] = field(default_factory=dict)
    _taken: dict[str, Turn] = field(default_factory=dict)

    def parts(self, size: int, quiet_size: int = 0) -> Iterator[Sequence[str]]:
        """Names whose turn it is, so many at a time, as long as the run has time; at least one part
        of those where something goes on, of those that take long, and of the others. None while
        another process has a run. `quiet_size` 0: as many. What was `took` is kept at the end.
        Raises StoreUnavailable.
        """
        with lease(own_key(f"running:{self.work.name}")) as mine:
            if mine:
                yield from self._parts(size, quiet_size or size)
                turns.keep(self.work.name, self._taken, self._before.keys() - set(self.names))

    def _parts(self, size: int, quiet_size: int) -> Iterator[Sequence[str]]:
        self._began_s = monotonic()
        self._before = turns.turns(self.work.name)
        self._taken = {n: Turn(0, self.now_ms) for n in self.names if n not in self._before}
        for kind, found in self._waiting().items():
            at_once = quiet_size if kind is _Kind.QUIET else size
            for first in range(0, len(found), at_once):
                part = found[first : first + at_once]
                overdue_ms = 0 if kind is _Kind.QUIET else self.now_ms - part[0][0]
                if first and not self._has_time(overdue_ms):
                    break
                yield [name for _, name in part]

    def _waiting(self) -> dict["_Kind", list[tuple[int, str]]]:
        """With when each is due, those that are due longest first."""
        found: dict[_Kind, list[tuple[int, str]]] = {kind: [] for kind in _Kind}
        for name in self.names:
            due_ms = self._due_ms(name)
            if due_ms <= self.now_ms + self.work.period_ms // EARLY:
                found[self._kind(name)].append((due_ms, name))
        return {kind: sorted(some) for kind, some in found.items()}

    def _kind(self, name: str) -> "_Kind":
        if name in self.quiet:
            return _Kind.QUIET
        turn = self._before.get(name)
        takes_long = turn is not None and turn.took_ms > self.work.share_s * 1_000
        return _Kind.LONG if takes_long else _Kind.USUAL

    def _due_ms(self, name: str) -> int:
        done_ms, due_ms, took_ms = self._before.get(name) or self._taken[name]
        if done_ms > self.now_ms:  # the clock was set back
            return self.now_ms
        is_quiet = self.quiet.get(name, self.now_ms) <= done_ms
        if is_quiet or not done_ms:
            return due_ms
        return min(due_ms, done_ms + self.work.idle_periods * self._period_ms(took_ms))

    def _period_ms(self, took_ms: int) -> int:
        """In which it takes no more than the share of a run, but for the bound."""
        work = self.work
        own_ms = round(took_ms * work.period_ms / (work.share_s * 1_000))
        return min(max(work.period_ms, own_ms), work.period_ms + work.late_ms)

    def _has_time(self, overdue_ms: int) -> bool:
        is_late = overdue_ms >= self.work.late_ms
        share_s = self.work.late_share_s if is_late else self.work.share_s
        return monotonic() - self._began_s < share_s

    def took(
        self, name: str, took_s: float = 0.0, *, is_quiet: bool, was_idle: bool = False
    ) -> None:
        """`is_quiet`: spread, so that they do not all come at once. `was_idle`: there was nothing
        to do.
        """
        took_ms = round(took_s * 1_000)
        period_ms = self._period_ms(took_ms) * (self.work.idle_periods if was_idle else 1)
        if is_quiet:
            period_ms = round(self.work.quiet_ms * (0.8 + crc32(name.encode()) / 2**32 / 5))
        self._taken[name] = Turn(self.now_ms, self.now_ms + period_ms, took_ms)
