"""Whose turn it is in work that comes again and again, within a share of one processor.

What is due longest comes first. A run ends when its share is used up; only for what is late it goes
on, up to a bound. Names where nothing goes on have a longer period, come last and are never late.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from zlib import crc32

from dashboard.live import turns
from dashboard.live.turns import Turn

# Runs are a period apart, but not to the millisecond: whose turn comes within this part of a period
# has it now, and not a whole period later.
EARLY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """`period_ms`, `quiet_ms`: from one turn to the next. `share_s`: of each run, and of one that
    has turns which are late, which are due since `late_ms`, `late_share_s`.
    """

    name: str
    period_ms: int
    quiet_ms: int
    share_s: float
    late_ms: int
    late_share_s: float


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
        of those where something goes on, and one of the others. `quiet_size` 0: as many. Raises
        StoreUnavailable.
        """
        self._began_s = monotonic()
        self._before = turns.turns(self.work.name)
        self._taken = {n: Turn(0, self.now_ms) for n in self.names if n not in self._before}
        waiting: dict[bool, list[tuple[int, str]]] = {False: [], True: []}
        for name in self.names:
            due_ms = self._due_ms(name)
            if due_ms <= self.now_ms + self.work.period_ms // EARLY:
                waiting[name in self.quiet].append((due_ms, name))
        for are_quiet, found in waiting.items():
            at_once = quiet_size if are_quiet and quiet_size else size
            for first, part in enumerate(_parts(sorted(found), at_once)):
                overdue_ms = 0 if are_quiet else self.now_ms - part[0][0]
                if first and not self._has_time(overdue_ms):
                    break
                yield [name for _, name in part]

    def _due_ms(self, name: str) -> int:
        done_ms, due_ms = self._before.get(name) or self._taken[name]
        if done_ms > self.now_ms:  # the clock was set back
            return self.now_ms
        is_quiet = self.quiet.get(name, self.now_ms) <= done_ms
        return due_ms if is_quiet or not done_ms else min(due_ms, done_ms + self.work.period_ms)

    def _has_time(self, overdue_ms: int) -> bool:
        is_late = overdue_ms >= self.work.late_ms
        share_s = self.work.late_share_s if is_late else self.work.share_s
        return monotonic() - self._began_s < share_s

    def took(self, name: str, *, is_quiet: bool) -> None:
        """`is_quiet`: spread, so that they do not all come at once."""
        period_ms = self.work.period_ms
        if is_quiet:
            period_ms = round(self.work.quiet_ms * (0.8 + crc32(name.encode()) / 2**32 / 5))
        self._taken[name] = Turn(self.now_ms, self.now_ms + period_ms)

    def keep(self) -> None:
        """Raises StoreUnavailable."""
        turns.keep(self.work.name, self._taken, self._before.keys() - set(self.names))


def _parts(found: Sequence[tuple[int, str]], size: int) -> Iterator[Sequence[tuple[int, str]]]:
    return (found[first : first + size] for first in range(0, len(found), size))
