"""The periodic look at every group, once a second (coordination.md section 3)."""

import logging
import time

from assignment.coordinator import tick as rules
from assignment.coordinator.effects import RecordsAway
from assignment.coordinator.facts import GroupRecord
from assignment.scripts.group_read import Ticker
from dashboard.coordinator.carrying import AWAY, Here, carry_out, record_of
from dashboard.live import groups as live_groups
from dashboard.live import health, queue
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group

SAID_EVERY_S = 1.0
LATE_S = 3.0

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
                carry_out(rules.tick(record), here)
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
