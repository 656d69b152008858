"""Celery's tasks: wrappers of three lines, the work is in the coordinator."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from celery import shared_task

from dashboard import coordinator
from dashboard.live import health
from dashboard.live.connection import StoreUnavailable

log = logging.getLogger(__name__)


@shared_task(name="dashboard.tick")  # type: ignore[untyped-decorator]
def tick() -> int | str:
    return _unless_redis_is_away("tick", _tick)


def _tick() -> int:
    health.stamp(health.Sign.WORKER)
    return coordinator.tick()


@shared_task(name="dashboard.rebalance", bind=True)  # type: ignore[untyped-decorator]
def rebalance(self: Any, group_name: str) -> int | str:
    run = partial(
        coordinator.rebalance, group_name, self.request.id or "", self.request.hostname or ""
    )
    return _unless_redis_is_away("rebalance", run)


@shared_task(name="dashboard.sample")  # type: ignore[untyped-decorator]
def sample() -> int | str:
    return _unless_redis_is_away("sample", coordinator.sample)


@shared_task(name="dashboard.trim")  # type: ignore[untyped-decorator]
def trim() -> int | str:
    return _unless_redis_is_away("trim", coordinator.trim)


def _unless_redis_is_away(name: str, work: Callable[[], int | str]) -> int | str:
    """An absent Redis is one line per try, not a traceback: the next beat tries again."""
    try:
        return work()
    except StoreUnavailable as error:
        log.warning("%s not done: %s", name, error)
        return "Redis is away"
