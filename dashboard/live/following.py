"""One group as this process follows it: read whole once, brought forward by the log of the locks,
and checked against Redis a part at a time.

Every look reads the events since the last one, what members said, and some partitions whole: all
of a small group, of a large one those that were read longest ago. So locks, targets and members are
as of the look; commits and lag are as old as `progress_ms` of the snapshot says. Where the log does
not lead on (trimmed, another Redis, other settings) everything is read anew.
"""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from assignment.bounds import NAME_MAX, printable, shortened
from assignment.errors import Damaged
from assignment.scripts.group_read import Meta
from assignment.scripts.rows import UNREADABLE, why_unreadable
from assignment.types import GroupSettings
from dashboard.live import reading
from dashboard.live.connection import GroupDamaged, StoreUnavailable
from dashboard.live.heard import Heard, Told
from dashboard.live.ownership import LogGap, Names, Ownership
from dashboard.live.progress import Progress
from dashboard.live.reading import EVENTS_MAX, PARTITIONS_MAX, Reading
from dashboard.live.reported import Mode
from dashboard.live.snapshot import LiveSnapshot, build

FRESH_S = 1.0  # a part that was read since is not read again, unless it is due in its turn
BUDGET_S = 0.03  # of one look, for parts beyond the one that is due
NAMES_MAX = 50_000  # members that came and went, before everything is read anew
ANEW_MAX = 3  # times in one look that the log does not lead on

log = logging.getLogger(__name__)
differences: Counter[str] = Counter()  # by group: partitions whose rows denied the events


class GroupNotThere(StoreUnavailable):
    """Redis answers, but holds no such group: it was wiped, or the group is just being made."""


class Following:
    """Not for two threads at once."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._state: _State | None = None
        self._names = Names()

    def look(self, *, whole: bool = False) -> LiveSnapshot:
        """`whole`: no part is older than the look. Raises StoreUnavailable, GroupNotThere."""
        for _ in range(ANEW_MAX):
            try:
                return self._look(whole)
            except LogGap as gap:
                log.info("group=%s is read anew: %s", self.group, gap)
                self._state = None
            except Damaged as error:
                self._state = None
                raise _of_group(self.group, error) from error
        raise StoreUnavailable(f"group {self.group!r} changed faster than it can be read")

    def _look(self, whole: bool) -> LiveSnapshot:
        state = self._state = self._state or self._begun()
        began_s = time.monotonic()
        oldest, *others = state.parts_by_age()
        for part in others:
            age_s, spent_s = began_s - state.read_s[part], time.monotonic() - began_s
            if whole or not state.read_s[part] or (age_s > FRESH_S and spent_s < BUDGET_S):
                state.read(part)
        told = reading.told_in(state.read(oldest, keys=True), state.heard)
        settings = _settings_of(self.group, told.read.meta)
        if (settings.stream, settings.partitions) != (state.held.stream, state.held.size):
            raise LogGap("its partitions are others")
        return state.shown(told)

    def _begun(self) -> "_State":
        if len(self._names.texts) > NAMES_MAX:
            self._names = Names()
        found = reading.read(self.group, reading.START, "", range(0), keys=True)
        settings = _settings_of(self.group, reading.meta_in(found))
        held = Ownership(settings.stream, settings.partitions, self._names)
        held.seq = found.event_seq
        return _State(self.group, held, found)


class _State:
    """As of `position` in the log of the Redis that is `run_id`."""

    def __init__(self, group: str, held: Ownership, began: Reading) -> None:
        self.group, self.held = group, held
        self.progress = Progress(held.size)
        self.heard = Heard(held.stream, held.size)
        self._run, self._position = began.run_id, began.position
        parts = -(-held.size // PARTITIONS_MAX)
        self.read_s = [0.0] * parts  # when each was read last, monotonic; 0: never
        self._read_ms = [0] * parts  # the same by the clock of Redis

    def parts_by_age(self) -> list[int]:
        return sorted(range(len(self.read_s)), key=self.read_s.__getitem__)

    def read(self, part: int, *, keys: bool = False) -> Reading:
        """The log up to now, and the part's rows. Raises LogGap."""
        first = part * PARTITIONS_MAX
        span = range(first, min(first + PARTITIONS_MAX, self.held.size))
        while True:
            found = reading.read(self.group, self._position, self.held.stream, span, keys=keys)
            self._forward(found)
            if found.is_all:
                break
        self._take(part, span, found.rows)
        self.read_s[part], self._read_ms[part] = time.monotonic(), found.now_ms
        return found

    def _forward(self, found: Reading) -> None:
        if found.run_id != self._run:
            raise LogGap("another Redis answers")
        if found.event_seq - self.held.seq > self.held.size + EVENTS_MAX:
            raise LogGap("there are more events than partitions")
        for event in found.events:
            self.held.apply(event)
        if found.is_all and self.held.seq != found.event_seq:
            raise LogGap(f"the last event is {found.event_seq}, and not {self.held.seq}")
        self._position = found.position

    def _take(self, part: int, span: range, rows: Sequence[Any]) -> None:
        locks, grants, since, *progress = rows
        try:
            wrong = self.held.take(span.start, locks, grants, since)
            self.progress.take(span.start, *progress)
        except UNREADABLE as error:
            why = why_unreadable(error)
            raise Damaged(f"the group's records are damaged: {why}") from error
        if wrong and self.read_s[part]:
            differences[self.group] += len(wrong)
            log.error("group=%s: locks of %s are not what the events say", self.group, wrong[:10])
            raise LogGap("locks are not what the events say")

    def shown(self, told: Told) -> LiveSnapshot:
        found = build(self.group, told, self.held, self.progress)
        meta, computes = told.read.meta, _name(told.computes)
        return replace(
            found,
            progress_ms=min(self._read_ms),
            position=self._position,
            mode=Mode(meta.coordination, meta.mode_epoch, computes),
        )


def _of_group(group: str, error: Damaged) -> GroupDamaged:
    return error if isinstance(error, GroupDamaged) else GroupDamaged(group, error)


def _settings_of(group: str, meta: Meta) -> GroupSettings:
    if meta.settings is None:
        raise GroupNotThere(f"group {group!r} is not set up in Redis yet")
    return meta.settings


def _name(stored: bytes) -> str:
    """Whoever may write to the group's keys may have written it."""
    return printable(shortened(stored.decode(errors="replace"), NAME_MAX))
