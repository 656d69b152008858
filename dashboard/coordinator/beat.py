"""Celery beat's scheduler, with a bound on what waits for a worker that is not there.

Beat publishes for ever; expired tasks stay in the broker's list until a worker throws them away.
"""

import logging
from typing import Any

from celery.beat import PersistentScheduler

from dashboard.celery import QUEUE
from dashboard.live import health

WAITING_MAX = 50  # some forty seconds of tasks: whoever comes back starts with a short list

log = logging.getLogger(__name__)


class BoundedScheduler(PersistentScheduler):  # type: ignore[misc]
    def apply_async(self, entry: Any, producer: Any = None, **kwargs: Any) -> Any:
        """None, and nothing is published, while more than WAITING_MAX tasks wait."""
        health.stamp(health.Sign.BEAT)
        waiting = self.waiting()
        if waiting > WAITING_MAX:
            log.warning("%s not published: %d tasks wait for a worker", entry.task, waiting)
            return None
        return super().apply_async(entry, producer=producer, **kwargs)

    def waiting(self) -> int:
        return int(self.connection.default_channel.client.llen(QUEUE))
