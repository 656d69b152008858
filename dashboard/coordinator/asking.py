"""Asks for a rebalance: publishes at most one task per group at a time."""

import logging

from kombu.exceptions import OperationalError

from dashboard.celery import app
from dashboard.live import queue

EXPIRES_S = 30  # a stopped worker finds few of them; the tick asks again

log = logging.getLogger(__name__)


def want_rebalance(group_name: str) -> bool:
    """Whether a task was published for it. Raises StoreUnavailable."""
    if not queue.want(group_name):
        return False
    try:
        app.send_task("dashboard.rebalance", (group_name,), expires=EXPIRES_S)
    except (OperationalError, OSError) as error:
        log.warning("rebalance of group=%s not published: %s", group_name, error)
        queue.unpublish(group_name)
        return False
    return True
