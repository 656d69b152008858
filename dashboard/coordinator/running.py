"""Runs the rules (coordination.md section 3): the periodic look at every group, once a second, and
one rebalance of a group at a time; triggers that come meanwhile make it run again.
"""

import logging
import time

from assignment.coordinator import rebalance as rebalancing
from assignment.coordinator import tick as ticking
from assignment.coordinator.effects import RecordsAway
from assignment.coordinator.facts import GroupRecord
from assignment.scripts.group_read import Ticker
from assignment.types import Coordination
from dashboard.coordinator.carrying import AWAY, Here, carry_out, record_of
from dashboard.coordinator.outbox import Task
from dashboard.live import groups as live_groups
from dashboard.live import health, queue
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group

SAID_EVERY_S = 1.0
LATE_S = 3.0
ROUNDS_MAX = 5  # triggers that keep coming wait for the next task

log = logging.getLogger(__name__)


def tick() -> int:
    """How many groups were looked at; 0 while another process is at it. Raises StoreUnavailable."""
    with queue.ticking() as mine:
        if not mine:
            return 0
        looked, clock, groups = 0, _Clock(), _groups()
        for number, (record, group) in enumerate(groups):
            here = Here(record.name, group, ticker=clock.goes_on(len(groups) - number))
            try:
                carry_out(ticking.tick(record, Coordination.SERVER), here)
                looked += 1
            except StoreUnavailable:
                raise
            except RecordsAway as error:
                log.warning("tick of group=%s waits for the database: %s", record.name, error)
            except Exception:  # the top of a loop: one group's trouble is not the others'
                log.exception("tick failed group=%s", record.name)
        health.stamp(health.Sign.TICK)
        return looked


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
