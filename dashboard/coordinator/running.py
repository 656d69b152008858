"""Runs the rules (coordination.md section 3): the periodic look at every group, once a second, and
one rebalance of a group at a time; triggers that come meanwhile make it run again.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from assignment.coordinator import rebalance as rebalancing
from assignment.coordinator import tick as ticking
from assignment.coordinator.effects import RecordsAway
from assignment.coordinator.facts import GroupRecord
from assignment.errors import Damaged
from assignment.scripts.group_read import Ticker
from assignment.types import Coordination
from dashboard.coordinator.carrying import AWAY, Here, carry_out, pieces_of, record_of
from dashboard.coordinator.outbox import Task
from dashboard.live import groups as live_groups
from dashboard.live import health, queue
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group

SAID_EVERY_S = 1.0
LATE_S = 3.0
SLICE_S = 0.25  # of a group, while others wait; many times what a group of usual size takes
PATIENCE_S = 5.0  # of a tick, with groups that take longer; doubled for one that is not done then
PATIENCE_MAX_S = 80.0
ROUNDS_MAX = 5  # triggers that keep coming wait for the next task

log = logging.getLogger(__name__)
_patience_s: dict[str, float] = {}  # of groups that were not done in time, in this process


def tick() -> int:
    """How many groups were looked at; 0 while another process is at it. Raises StoreUnavailable."""
    with queue.ticking() as mine:
        if not mine:
            return 0
        clock, groups = _Clock(), _groups()
        done = in_turns([_Turn(record, group) for record, group in groups], clock.goes_on)
        failing = [turn.record.name for turn in done if turn.has_failed]
        health.stamp_failing(failing, len(groups))
        health.stamp(health.Sign.TICK)
        return sum(turn.is_done for turn in done)


@dataclass(slots=True)
class _Turn:
    """One group in one tick."""

    record: GroupRecord
    group: Group | None
    pieces: Generator[None, None, None] | None = None
    is_done: bool = False
    has_failed: bool = False

    def go_on(self, ticker: Ticker, until_s: float) -> bool:
        """Whether it is over, well or not. Raises StoreUnavailable."""
        name = self.record.name
        if self.pieces is None:
            here = Here(name, self.group, ticker=ticker)
            self.pieces = pieces_of(ticking.tick(self.record, Coordination.SERVER), here)
        try:
            for _ in self.pieces:
                if time.monotonic() >= until_s:
                    return False
            self.is_done = True
        except StoreUnavailable:
            raise
        except RecordsAway as error:
            log.warning("tick of group=%s waits for the database: %s", name, error)
        except Damaged as error:
            log.error("tick failed group=%s: %s", name, error)
            self.has_failed = True
        except Exception:  # the top of a loop: one group's trouble is not the others'
            log.exception("tick failed group=%s", name)
            self.has_failed = True
        return True


def in_turns(turns: Sequence[_Turn], goes_on: Callable[[int], Ticker]) -> Sequence[_Turn]:
    """Each for SLICE_S; who needs longer gives way to all the others, and goes on after them. What
    takes so long that the next tick would be late is left to it: it begins with the others.
    """
    began_s, waiting = time.monotonic(), deque(turns)
    while waiting:
        turn = waiting.popleft()
        now_s, ticker = time.monotonic(), goes_on(len(waiting) + 1)
        name, was_begun = turn.record.name, turn.pieces is not None
        patience_s = _patience_s.get(name, PATIENCE_S)
        if was_begun and now_s - began_s > patience_s:
            log.warning("tick of group=%s takes longer than %g s: left out", name, patience_s)
            _patience_s[name] = min(2 * patience_s, PATIENCE_MAX_S)
            continue
        if turn.go_on(ticker, now_s + SLICE_S):
            _patience_s.pop(name, None)
        else:
            waiting.append(turn)
    return turns


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


def _groups() -> list[tuple[GroupRecord, Group | None]]:
    """While the database is away, those that it had; Redis knows their settings."""
    try:
        rows = list(Group.objects.all())
    except AWAY as error:
        log.warning("ticks go on without the database: %s", error)
        return [
            (GroupRecord(name=name, settings=None, incarnation=incarnation), None)
            for name, incarnation in sorted(live_groups.known_groups().items())
        ]
    live_groups.note_groups({row.name: row.incarnation for row in rows})
    return [(record_of(row), row) for row in rows]


# --- one group ------------------------------------------------------------------------------------


def rebalance(group_name: str, task_id: str = "", worker: str = "") -> str:
    """What came of it, in words. Raises StoreUnavailable, Group.DoesNotExist."""
    result = "another run has it"
    for _ in range(ROUNDS_MAX):
        with queue.running(group_name) as mine:
            if not mine:
                queue.found_busy(group_name)
                return result
            queue.take_wanted(group_name)
            here = Here(group_name, _row(group_name), Task(task_id, worker))
            result = carry_out(rebalancing.rebalance(Coordination.SERVER), here)
        if not queue.is_wanted(group_name):
            break
    return result


def _row(group_name: str) -> Group | None:
    """None while the database is away: a group that was there goes on without it."""
    try:
        return Group.objects.get(name=group_name)
    except AWAY:
        if group_name not in live_groups.known_groups():
            raise
        return None
