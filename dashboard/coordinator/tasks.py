"""Celery's tasks: wrappers of three lines, the work is in the coordinator."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from celery import current_task, shared_task
from django.db import DatabaseError

from dashboard import coordinator
from dashboard.agents import rights
from dashboard.live import health
from dashboard.live import queue as waits
from dashboard.live.connection import StoreUnavailable
from dashboard.records import chain
from dashboard.webhooks import queue

log = logging.getLogger(__name__)
sign = health.WorkerSign()


def _task(work: Callable[..., int | str]) -> Any:
    """An absent Redis is one line per try, not a traceback: the next beat tries again."""

    @wraps(work)
    def unless_redis_is_away(*arguments: Any) -> int | str:
        try:
            sign.give()
            return work(*arguments)
        except StoreUnavailable as error:
            log.warning("%s not done: %s", work.__name__, error)
            return "Redis is away"

    return shared_task(name=f"dashboard.{work.__name__}")(unless_redis_is_away)


@_task
def keep_users() -> str:
    """Users and scripts of Redis. Asked for most often, so that there is always something to
    begin.
    """
    try:
        rights.keep()
    except DatabaseError as error:
        log.warning("users of Redis wait for the database: %s", error)
        return "the database is away"
    return "kept"


@_task
def rebalance(group_name: str, published_ms: int = 0) -> str:
    if published_ms:
        waits.note_wait(published_ms)
    asked = current_task.request
    return coordinator.rebalance_in_turn(group_name, asked.id or "", asked.hostname or "")


@_task
def anchor() -> int:
    """Notes how far the audit's chain goes: 1 when it has gone on."""
    return int(chain.anchor())


sample_due, trim_due = _task(coordinator.sample_due), _task(coordinator.trim_due)
keep_history = _task(coordinator.keep_history)
retain = _task(coordinator.retain)
deliver_webhooks = _task(queue.deliver_webhooks)
