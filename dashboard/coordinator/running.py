"""Runs the rules (coordination.md section 3): once a second the look at every group that does not
rest, and one rebalance of a group at a time; triggers that come meanwhile make it run again.
"""

import logging
import time
from collections import deque
from collections.abc import Generator

from assignment.coordinator import rebalance as rebalancing
from assignment.coordinator import tick as ticking
from assignment.coordinator.effects import RecordsAway
from assignment.coordinator.reading import why_waiting
from assignment.coordinator.resting import Looked
from assignment.scripts.group_read import NO_TICK, Ticker
from assignment.types import Coordination
from dashboard.coordinator.carrying import (
    AWAY,
    Here,
    carry_out,
    pieces_of,
    want_rebalance,
)
from dashboard.coordinator.outbox import Task
from dashboard.coordinator.records import OPEN
from dashboard.coordinator.resting import Awake, Resting
from dashboard.live import groups as live_groups
from dashboard.live import health, queue
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group

SAID_EVERY_S = 1.0
LATE_S = 3.0
SLICE_S = 0.25  # of a group, while others wait; many times what a group of usual size takes
ROUND_S = 1.0  # then those that are done are looked at again, while others still take their time
LONG_S = 15.0  # a group that takes longer is counted with those that fail
TICK_MAX_S = 40.0  # within the time limit of a task: what is not done by then begins anew
ROUNDS_MAX = 5  # triggers that keep coming wait for the next task

log = logging.getLogger(__name__)


def tick() -> int:
    """How many groups were looked at, of those that do not rest; 0 while another process is at it.
    Raises StoreUnavailable.
    """
    with queue.ticking() as mine:
        return _Tick().run() if mine else 0


class _Tick:
    """Rounds over all groups: one, unless a group takes long. That one goes on between the rounds
    of the others, which are looked at as often as ever.
    """

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.slow: deque[_Turn] = deque()
        self.done: set[str] = set()
        self.failing: set[str] = set()  # since it was said last
        self.were_slow: set[str] = set()  # the next tick begins them anew
        self.given_up: set[str] = set()
        self.resting = Resting()

    def run(self) -> int:
        self._round()
        while self.slow:
            self._go_on()
            if self.slow:
                self._round()
            else:  # the next round is the next tick, at its own time
                self._tell()
        return len(self.done)

    def _round(self) -> None:
        clock = _Clock()
        awake = self.resting.awake(clock.ticker)
        turns = [_Turn(one) for one in awake if one.record.name not in self.were_slow]
        for number, turn in enumerate(turns):
            self._give(turn, clock.goes_on(len(turns) - number))
        self._tell()

    def _tell(self) -> None:
        self.resting.keep()
        late = {turn.name for turn in self.slow if time.monotonic() - turn.began_s > LONG_S}
        unkept, groups = health.without_history(), self.resting.groups
        failing = self.failing | self.given_up | late | (unkept & groups)
        health.stamp_failing(failing, len(groups))
        health.stamp(health.Sign.TICK)
        self.failing.clear()

    def _go_on(self) -> None:
        now_s = time.monotonic()
        if now_s - self.began_s > TICK_MAX_S:
            self._give_up()
        while self.slow and time.monotonic() - now_s < ROUND_S:
            self._give(self.slow.popleft())

    def _give(self, turn: "_Turn", ticker: Ticker = NO_TICK) -> None:
        if not turn.go_on(ticker):
            self.slow.append(turn)
            self.were_slow.add(turn.name)
        elif turn.looked is not None:
            self.done.add(turn.name)
            self.resting.looked(turn.awake, turn.looked, turn.took_s)
        elif turn.has_failed:
            self.failing.add(turn.name)

    def _give_up(self) -> None:
        for turn in self.slow:
            log.error("tick of group=%s takes longer than %g s: given up", turn.name, TICK_MAX_S)
            self.given_up.add(turn.name)
        self.slow.clear()


class _Turn:
    """One group in one tick."""

    def __init__(self, awake: Awake) -> None:
        self.name, self.awake = awake.record.name, awake
        self.began_s = self.took_s = 0.0
        self.pieces: Generator[None, None, Looked] | None = None
        self.looked: Looked | None = None
        self.has_failed = False

    def go_on(self, ticker: Ticker) -> bool:
        """For SLICE_S. Whether it is over, well or not. Raises StoreUnavailable."""
        if self.pieces is None:
            self.began_s = time.monotonic()
            here = Here(self.name, self.awake.group, ticker=ticker)
            self.pieces = pieces_of(ticking.tick(self.awake.record, Coordination.SERVER), here)
        slice_s = time.monotonic()
        try:
            while time.monotonic() < slice_s + SLICE_S:
                next(self.pieces)
            return False
        except StopIteration as end:
            self.looked = end.value
        except RecordsAway as error:
            log.warning("tick of group=%s waits for the database: %s", self.name, error)
        except StoreUnavailable as error:
            live_groups.redis_now_ms()  # is away too when it is Redis, and not what it has of one
            log.error("tick failed group=%s: %s", self.name, error)
            self.has_failed = True
        except Exception:  # the top of a loop: one group's trouble is not the others'
            log.exception("tick failed group=%s", self.name)
            self.has_failed = True
        finally:
            self.took_s += time.monotonic() - slice_s
        return True


class _Clock:
    """Says every second that somebody ticks, and after LATE_S for how many groups it is late."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.said_s, self.ticker = self.began_s, queue.ticker_lives()

    def goes_on(self, waiting: int) -> Ticker:
        now_s = time.monotonic()
        if now_s - self.said_s >= SAID_EVERY_S:
            self.said_s, self.ticker = now_s, queue.ticker_lives()
            if now_s - self.began_s >= LATE_S:
                health.stamp_late(waiting)
        return self.ticker


# --- one group ------------------------------------------------------------------------------------


def rebalance_in_turn(group_name: str, task_id: str, worker: str) -> str:
    """As a task: while the group's runs have had their share it is published anew, for later."""
    if queue.pause_s(group_name):
        queue.unpublish(group_name)
        want_rebalance(group_name)
        return "others come first"
    return rebalance(group_name, task_id, worker)


def rebalance(group_name: str, task_id: str = "", worker: str = "") -> str:
    """What came of it, in words. Raises StoreUnavailable, Group.DoesNotExist."""
    result = "another run has it"
    for _ in range(ROUNDS_MAX):
        with queue.running(group_name) as mine:
            if not mine:
                queue.found_busy(group_name)
                return result
            queue.take_wanted(group_name)
            began_s = time.monotonic()
            try:
                here = Here(group_name, _row(group_name), Task(task_id, worker))
                result = _why_waiting(here) or carry_out(
                    rebalancing.rebalance(Coordination.SERVER), here
                )
            finally:
                queue.spend(group_name, time.monotonic() - began_s)
        if not queue.is_wanted(group_name):
            break
        if queue.pause_s(group_name):
            want_rebalance(group_name)  # others come first
            break
    return result


def _why_waiting(here: Here) -> str:
    """Why the run would only find that it has to wait; "" where it may not. While many members join
    nearly all do, and one that reads the group whole costs many times what is read here.
    """
    if here.row is None or here.row.requests.filter(state__in=OPEN).exists():
        return ""
    asked = live_groups.some_asked(here.name)
    return why_waiting(asked) if asked is not None and asked.meta.settings is not None else ""


def _row(group_name: str) -> Group | None:
    """None while the database is away: a group that was there goes on without it."""
    try:
        return Group.objects.get(name=group_name)
    except AWAY:
        if group_name not in live_groups.known_groups():
            raise
        return None
