"""One group as this process follows it: read whole once, brought forward by the log of the locks,
and checked against Redis a part at a time.

Every look reads the events since the last one, what members said since, and a part of the
partitions whole: all of a small group, of a large one the part that was read longest ago; what the
first one lacks is how far the work on most of a large group is. Of a group with more than
IN_TURN_MAX parts a look reads none, for what was read first would be too old before the last one
came. So locks, targets and members are as of the look; commits and lag are as old as `read_ms` of
the cells says. A caller that wants to show the locks first looks without progress, and reads more
of that afterwards. Where the log does not lead on (trimmed, another Redis, another group of that
name, other settings) everything is read anew.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from assignment.bounds import NAME_MAX, printable, shortened
from assignment.errors import Damaged
from assignment.scripts.group_read import NO_TICK, Meta, Ticker
from assignment.scripts.rows import UNREADABLE, why_unreadable
from dashboard.live import reading
from dashboard.live.cells import KEPT_MS
from dashboard.live.connection import GroupDamaged, StoreUnavailable
from dashboard.live.health import note_difference
from dashboard.live.heard import NOTHING_KNOWN, Heard, Known, Told
from dashboard.live.ownership import LogGap, Names, Ownership
from dashboard.live.progress import Progress
from dashboard.live.reading import (
    EVENTS_MAX,
    NO_STREAM,
    NOTHING_ANSWERED,
    PARTITIONS_MAX,
    START,
    Answered,
    Question,
    Reading,
    Stream,
)
from dashboard.live.reported import Mode
from dashboard.live.snapshot import LiveSnapshot, build
from dashboard.web.counts import counts

FRESH_S = 1.0  # a part that was read since is not read again, unless it is due in its turn
IN_TURN_MAX = KEPT_MS // round(FRESH_S * 1000)  # parts that one a look keeps known
BUDGET_S = 0.008  # beyond the part that is due, where nobody waits for it
NAMES_MAX = 50_000  # members that came and went, before everything is read anew
ANEW_MAX = 3  # times in one look that the log does not lead on

log = logging.getLogger(__name__)


class GroupNotThere(StoreUnavailable):
    """Redis answers, but holds no such group: it was wiped, or the group is just being made."""


class Following:
    """Not for two threads at once."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._state: _State | None = None
        self._names = Names()
        self._first = _first_question(group, NO_STREAM)  # asked where nothing is known

    def look(
        self,
        *,
        whole: bool = False,
        progress: bool = True,
        ticker: Ticker = NO_TICK,
        answered: Answered = NOTHING_ANSWERED,
    ) -> LiveSnapshot:
        """`whole`: no part is older than the look. Without `progress` that of a large group is left
        to `read_progress`. `ticker`: who ticked last, where that is known. `answered`: what need
        not be asked any more (`question`). Raises StoreUnavailable, GroupNotThere.
        """
        for _ in range(ANEW_MAX):
            try:
                return self._look(whole, progress, ticker, answered)
            except LogGap as gap:
                self._read_anew(gap)
                answered = NOTHING_ANSWERED  # it may be older than what is begun with
            except Damaged as error:
                self._state = None
                raise _of_group(self.group, error) from error
        raise StoreUnavailable(f"group {self.group!r} changed faster than it can be read")

    def question(self, of: Stream) -> Question | None:
        """All that a whole look would ask of a small group; None where more has to be asked. `of`:
        what is its stream as far as the caller knows, for a group of which nothing is known yet.
        """
        state = self._state
        if state is not None:
            return state.whole_question() if state.is_small else None
        if not 0 < of.partitions <= PARTITIONS_MAX:
            return None
        self._first = _first_question(self.group, of)
        return self._first

    def read_progress(self) -> None:
        """Reads progress that a look without it left out, in turn; what is wrong with that of some
        partitions keeps nobody from looking at the locks. Raises StoreUnavailable.
        """
        state = self._state
        if state is None or state.is_small:
            return
        try:
            state.read(state.read_in_turn(BUDGET_S))
        except LogGap as gap:
            self._read_anew(gap)
        except Damaged as error:
            raise _of_group(self.group, error) from error

    def _read_anew(self, gap: LogGap) -> None:
        log.info("group=%s is read anew: %s", self.group, gap)
        self._state = None

    def _look(
        self, whole: bool, progress: bool, ticker: Ticker, answered: Answered
    ) -> LiveSnapshot:
        if (state := self._state) is None:
            state, answered = self._begun(answered)
            self._state = state
        left: int | None = None
        if whole or (progress and len(state.read_s) <= IN_TURN_MAX) or state.is_small:
            left = state.read_in_turn(inf if whole else 0.0)
        else:
            state.read_unknown()
        known = NOTHING_KNOWN if whole else state.heard.known
        found = state.read(left, keys=known, answered=answered)
        told = reading.told_in(found, state.heard, ticker)
        if _stream_of(self.group, told.read.meta) != (state.held.stream, state.held.size):
            raise LogGap("its partitions are others")
        return state.shown(told)

    def _begun(self, answered: Answered) -> tuple["_State", Answered]:
        """And what need not be asked of it any more: its first question has asked for all that is
        looked at next, where its stream was known.
        """
        if len(self._names.texts) > NAMES_MAX:
            self._names = Names()
        first = self._first
        found = answered.get(first) or reading.read(first)
        stream = _stream_of(self.group, reading.meta_in(found))
        held = Ownership(*stream, self._names)
        held.seq = found.event_seq
        state = _State(self.group, held, found)
        if stream != (first.stream, len(first.part)):
            return state, NOTHING_ANSWERED
        return state, {state.whole_question(): found}


class _State:
    """As of a position in the log of one source."""

    def __init__(self, group: str, held: Ownership, began: Reading) -> None:
        self.group, self.held = group, held
        self.progress = Progress(held.size)
        self.heard = Heard(held.stream, held.size)
        self._source, self._position = began.source, began.position
        parts = -(-held.size // PARTITIONS_MAX)
        self.read_s = [-inf] * parts  # when progress of each was read last, monotonic; -inf: never
        self._known: set[int] = set()  # parts that were read, with progress or without

    @property
    def is_small(self) -> bool:
        """One reading has all of it."""
        return len(self.read_s) == 1

    def read_in_turn(self, budget_s: float) -> int:
        """Some parts, within the budget: inf is all of them, and of two both are read. Not the one
        that is due first, whose number it says.
        """
        began_s = time.monotonic()
        oldest, *others = sorted(range(len(self.read_s)), key=self.read_s.__getitem__)
        for part in others:
            age_s, spent_s = began_s - self.read_s[part], time.monotonic() - began_s
            has_time = spent_s < budget_s or len(others) == 1
            if budget_s == inf or (age_s > FRESH_S and has_time):
                self.read(part)
            elif part not in self._known:
                self.read(part, progress=False)
        return oldest

    def read_unknown(self) -> None:
        """The locks of parts that were never read."""
        for part in sorted(set(range(len(self.read_s))) - self._known):
            self.read(part, progress=False)

    def span(self, part: int) -> range:
        first = part * PARTITIONS_MAX
        return range(first, min(first + PARTITIONS_MAX, self.held.size))

    def whole_question(self) -> Question:
        """Of a small one."""
        return self.question(self.span(0), NOTHING_KNOWN, progress=True)

    def question(self, span: range, keys: Known | None, progress: bool) -> Question:
        return Question(self.group, self._position, self.held.stream, span, keys, progress)

    def read(
        self,
        part: int | None,
        *,
        keys: Known | None = None,
        progress: bool = True,
        answered: Answered = NOTHING_ANSWERED,
    ) -> Reading:
        """The log up to now, and the part's rows, if any. Raises LogGap."""
        if part is None:
            return self._read(range(0), keys, False, answered)
        span = self.span(part)
        found = self._read(span, keys, progress, answered)
        self._take(part, span, found)
        self._known.add(part)
        if progress:
            self.read_s[part] = time.monotonic()
        return found

    def _read(self, span: range, keys: Known | None, progress: bool, answered: Answered) -> Reading:
        while True:
            asked = self.question(span, keys, progress)
            found = answered.get(asked) or reading.read(asked)
            self._forward(found)
            if found.is_all:
                return found

    def _forward(self, found: Reading) -> None:
        if found.source != self._source:
            raise LogGap(f"it is of {found.source}, and not of {self._source}")
        if found.event_seq - self.held.seq > self.held.size + EVENTS_MAX:
            raise LogGap("there are more events than partitions")
        for event in found.events:
            self.held.apply(event)
        if found.is_all and self.held.seq != found.event_seq:
            raise LogGap(f"the last event is {found.event_seq}, and not {self.held.seq}")
        self._position = found.position

    def _take(self, part: int, span: range, found: Reading) -> None:
        try:
            wrong = self.held.take(span.start, *found.rows)
            if found.progress:
                self.progress.take(span, found.now_ms, *found.progress)
        except UNREADABLE as error:
            why = why_unreadable(error)
            raise Damaged(f"the group's records are damaged: {why}") from error
        if wrong and part in self._known:
            _tell_difference(self.group, wrong)
            raise LogGap("locks are not what the events say")

    def shown(self, told: Told) -> LiveSnapshot:
        found = build(self.group, told, self.held, self.progress)
        meta, computes = told.read.meta, _name(told.computes)
        return replace(
            found,
            position=self._position,
            mode=Mode(meta.coordination, meta.mode_epoch, computes),
        )


def _first_question(group: str, of: Stream) -> Question:
    return Question(group, START, of.name, range(of.partitions), NOTHING_KNOWN)


def _tell_difference(group: str, partitions: Sequence[int]) -> None:
    log.error("group=%s: locks of %s are not what the events say", group, partitions[:10])
    counts.differed(group, len(partitions))
    note_difference(group)


def _of_group(group: str, error: Damaged) -> GroupDamaged:
    return error if isinstance(error, GroupDamaged) else GroupDamaged(group, error)


def _stream_of(group: str, meta: Meta) -> tuple[str, int]:
    """And how many partitions it has."""
    if meta.settings is None:
        raise GroupNotThere(f"group {group!r} is not set up in Redis yet")
    return meta.settings.stream, meta.settings.partitions


def _name(stored: bytes) -> str:
    """Whoever may write to the group's keys may have written it."""
    return printable(shortened(stored.decode(errors="replace"), NAME_MAX))
