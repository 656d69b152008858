"""Keeps the history of all groups that wait for it, beside the tick: one process at a time, a batch
of each in turn, some seconds at most; then another task goes on.

Whatever it leaves undone when it is killed, the next tick wishes for again.
"""

import logging
import math
import time
from collections import deque
from dataclasses import dataclass

from assignment.coordinator import finishing
from assignment.coordinator.effects import RecordsAway
from dashboard.coordinator import resting
from dashboard.coordinator.carrying import AWAY, Here, carry_out, record_of, want_history
from dashboard.coordinator.history import store_events
from dashboard.coordinator.rows import is_asking
from dashboard.live import groups as live_groups
from dashboard.live import health, push, queue
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group

RUN_S = 5.0  # a worker that is to stop waits no longer; what is left is the next task's
WISHES_S = 0.3  # from one look at who wishes to the next, while there is something to do

log = logging.getLogger(__name__)


def keep_history() -> int:
    """How many events were stored; 0 while another process is at it. Raises StoreUnavailable."""
    run = _Run()
    with queue.keeping_history() as mine:
        if not mine:
            queue.history_found_busy()
            return 0
        left = run.run()
    if left or queue.is_history_wanted():  # or wished for when this run ended
        want_history(left)
    return run.stored


@dataclass(slots=True)
class _Turn:
    """One group. `awaited`: a rebalance waits for its record."""

    group: Group
    awaited: bool
    stored: int = 0


class _Run:
    """A batch of each group in turn, until none has more."""

    def __init__(self) -> None:
        self.until_s = time.monotonic() + RUN_S
        self.ticker, self.asked_s = queue.LastTicker(), -math.inf  # when for who wishes
        self.turns: deque[_Turn] = deque()
        self.stored = 0
        self.failing = health.troubles().answer().without_history

    def run(self) -> dict[str, bool]:
        """Groups for which there was no time left, and whether somebody awaits their history."""
        try:
            self._take()
            while self.turns and time.monotonic() < self.until_s:
                self._go_on(self.turns.popleft())
                self._take()
        except AWAY as error:
            log.warning("history waits for the database: %s", error)
            return {}
        for turn in self.turns:
            _tell(turn)
        return {turn.group.name: turn.awaited for turn in self.turns}

    def _take(self) -> None:
        now_s = time.monotonic()
        if self.turns and now_s - self.asked_s < WISHES_S:
            return
        wanted, self.asked_s = queue.take_wanted_history(), now_s
        for turn in self.turns:
            turn.awaited |= wanted.pop(turn.group.name, False)
        groups = Group.objects.filter(name__in=wanted) if wanted else ()
        self.turns.extend(_Turn(group, wanted[group.name]) for group in groups)

    def _go_on(self, turn: _Turn) -> None:
        """One batch. A group whose events cannot be stored is not the others' trouble."""
        name = turn.group.name
        try:
            stored = store_events(turn.group)
            self._note(name, is_kept=True)
            self.stored, turn.stored = self.stored + stored, turn.stored + stored
            if stored < live_groups.EVENTS_AT_ONCE:
                self._end(turn)
            else:
                self.turns.append(turn)
        except RecordsAway as error:
            log.warning("the record of a rebalance of group=%s waits: %s", name, error)
        except StoreUnavailable as error:
            live_groups.redis_now_ms()  # is away too when it is Redis, and not what it has of one
            log.error("history of group=%s not kept: %s", name, error)
            self._note(name, is_kept=False)
        except AWAY:
            raise
        except Exception:  # the top of a loop: one group's trouble is not the others'
            log.exception("history of group=%s not kept", name)
            self._note(name, is_kept=False)

    def _note(self, name: str, *, is_kept: bool) -> None:
        """For /readyz, when it changes."""
        if is_kept == (name in self.failing):
            health.note_history(name, is_kept=is_kept)
            (self.failing.discard if is_kept else self.failing.add)(name)

    def _end(self, turn: _Turn) -> None:
        is_told = False
        if turn.awaited:
            group = turn.group
            here = Here(group.name, group, ticker=self.ticker(), is_asked=is_asking(group.pk))
            is_told = carry_out(finishing.finish_awaited(record_of(group)), here)
        if not is_told:
            _tell(turn)
        resting.has_come(turn.group.name)


def _tell(turn: _Turn) -> None:
    if turn.stored:
        push.push(turn.group.name, "history")
