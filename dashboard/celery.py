"""Celery's wiring: Redis as broker, no results kept, a ticker beside each worker, one beat process
for what may rest while that is away: samples, trimming, webhooks, users of Redis.

Nothing here is relied on for delivery: the tick finds what a killed worker lost (backend.md).
"""

import logging
import os
import signal
import sys
import threading
from typing import Any

from celery import Celery, bootsteps
from celery.signals import worker_init, worker_process_init
from django.conf import settings

from dashboard import memory, priority
from dashboard.live.primary import follow_as_broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

QUEUE = "evenkeel"
WORKERS_LEAST = 4  # a sample, history and what is trimmed may take long: a rebalance waits for none
TICKER = "import django; django.setup(); from dashboard.coordinator.ticker import main; main()"
TICKER_STOPS_S = 10.0  # more than it takes to end
ANEW_S = 1.0  # after one that ended by itself
log = logging.getLogger(__name__)

app = Celery("dashboard")
follow_as_broker()
app.conf.update(
    broker_url=settings.BROKER_URL or settings.REDIS_URL,
    broker_transport_options={
        "global_keyprefix": f"{settings.REDIS_PREFIX}:celery:",
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
    },
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_default_queue=QUEUE,
    task_ignore_result=True,
    task_publish_retry=False,  # a lost trigger is found by the tick; nobody waits for a retry
    task_time_limit=60,
    task_soft_time_limit=50,
    worker_concurrency=max(WORKERS_LEAST, os.cpu_count() or 1),
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    timezone="UTC",
    beat_schedule_filename=str(settings.DATA / "beat-schedule"),
    beat_scheduler="dashboard.coordinator.beat:BoundedScheduler",
    beat_max_loop_interval=1,
    # Expiry: what a stopped worker missed is not made up for, the next one does the same work.
    beat_schedule={
        "keep_users": {"task": "dashboard.keep_users", "schedule": 2.0, "options": {"expires": 4}},
        "sample": {"task": "dashboard.sample_due", "schedule": 5.0, "options": {"expires": 5}},
        "anchor": {"task": "dashboard.anchor", "schedule": 10.0, "options": {"expires": 10}},
        "retain": {"task": "dashboard.retain", "schedule": 10.0, "options": {"expires": 10}},
        "trim": {"task": "dashboard.trim_due", "schedule": 10.0, "options": {"expires": 10}},
        "webhooks": {
            "task": "dashboard.deliver_webhooks",
            "schedule": 5.0,
            "options": {"expires": 5},
        },
    },
)
app.autodiscover_tasks(["dashboard.coordinator"])


@worker_init.connect  # type: ignore[untyped-decorator]
def give_way(**_: Any) -> None:
    priority.session_waits()


@worker_process_init.connect  # type: ignore[untyped-decorator]
def settle(**_: Any) -> None:
    priority.wait_for_others()
    memory.settle()


class TickerStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """A process of its own: neither tasks nor the worker's time limits delay it, and nothing of the
    worker's is inherited, as by a fork. One that ends is begun anew, also while the broker is away.
    """

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._ending, self._lock = threading.Event(), threading.Lock()
        self._pid = 0  # 0: it has ended, and another process may have its pid
        self._keeper = threading.Thread(target=self._keep, name="ticker", daemon=True)

    def start(self, worker: Any) -> None:
        self._keeper.start()

    def stop(self, worker: Any) -> None:
        self._ending.set()
        self._signal(signal.SIGTERM)
        if self._keeper.is_alive():
            self._keeper.join(TICKER_STOPS_S)
        self._signal(signal.SIGKILL)

    terminate = stop

    def _signal(self, number: int) -> None:
        with self._lock:
            if self._pid:
                os.kill(self._pid, number)

    def _keep(self) -> None:
        while not self._ending.is_set():
            with self._lock:
                self._pid = pid = _ticker()
            if self._ending.is_set():
                self._signal(signal.SIGTERM)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            with self._lock:
                self._pid, code = 0, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if not self._ending.wait(ANEW_S):
                log.error("the ticker ended with %d, and is begun anew", code)


def _ticker() -> int:
    """Its pid. Not by `subprocess`: that waits for a pipe to close, which a child of the pool that
    is forked at the same moment keeps open.
    """
    path = os.pathsep.join(filter(None, (str(settings.ROOT), os.getenv("PYTHONPATH"))))
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", TICKER, str(os.getpid())],
        {**os.environ, "PYTHONPATH": path},
        file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
    )


app.steps["worker"].add(TickerStep)
