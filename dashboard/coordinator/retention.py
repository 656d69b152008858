"""Drops what of history is older than EVENKEEL_HISTORY_DAYS: tenures that ended, stored maps, and
stays of members, a bounded number at a time, beside everything else.

First the group says from when on its history is kept, then rows go: nobody is shown half a past.
What holds at that moment stays, however long ago it began, so every later moment is as exact as
before.
"""

import logging
import time
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from dashboard.live import groups as live_groups
from dashboard.models import Group

DAY_MS = 86_400_000
STEP_MS = 3_600_000  # a group is looked at once in that time, but for what is left to be dropped
ROWS_AT_ONCE = 2_000  # of one transaction: another writer of SQLite waits 0.1 s on a busy machine
RUN_S = 5.0  # a worker that is to stop waits no longer; what is left goes with the next run

log = logging.getLogger(__name__)


def retain() -> int:
    """How many rows went. Raises StoreUnavailable: the locks' clock is that of Redis."""
    if not settings.HISTORY_DAYS:
        return 0
    oldest_ms = live_groups.redis_now_ms() - settings.HISTORY_DAYS * DAY_MS
    due = Group.objects.filter(history_dropped_ms__lte=oldest_ms - STEP_MS)
    until_s, dropped = time.monotonic() + RUN_S, 0
    for group in due.order_by("history_dropped_ms", "pk"):  # who waits longest comes first
        for rows in _drop(group, oldest_ms):
            dropped += rows
            if time.monotonic() >= until_s:
                return dropped
    return dropped


def _drop(group: Group, oldest_ms: int) -> Iterator[int]:
    """How many rows went, piece by piece; at its end none is left."""
    from_ms = _from_ms(group, oldest_ms)
    old = (
        group.tenures.filter(ended_ms__lt=from_ms).order_by("ended_ms"),
        group.maps.filter(at_ms__lt=from_ms).order_by("at_ms"),
        group.member_records.filter(left_at_ms__lt=from_ms).order_by("joined_at_ms"),
    )
    if from_ms > group.history_from_ms and any(rows.exists() for rows in old):
        Group.objects.filter(pk=group.pk).update(history_from_ms=from_ms)
        log.info("history of group=%s is kept from at_ms=%d on", group.name, from_ms)
    yield 0
    for rows in old:
        while dropped := _some(rows):
            yield dropped
    Group.objects.filter(pk=group.pk).update(history_dropped_ms=oldest_ms)


def _from_ms(group: Group, oldest_ms: int) -> int:
    """That of the newest stored map which may go: a later moment is that map, and what changed
    since. What was dropped stays dropped when the setting is raised.
    """
    found = group.maps.filter(at_ms__lte=oldest_ms).values_list("at_ms", flat=True).first()
    return max(group.history_from_ms, oldest_ms if found is None else found)


def _some(rows: QuerySet[Any]) -> int:
    keys = list(rows.values_list("pk", flat=True)[:ROWS_AT_ONCE])
    rows.model._default_manager.filter(pk__in=keys).delete()
    return len(keys)
