"""Celery's wiring: Redis as broker, no results kept, one beat process for periodic work.

Nothing here is relied on for delivery: the tick finds what a killed worker lost (backend.md).
"""

import os

from celery import Celery
from django.conf import settings

from dashboard.live.primary import follow_as_broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

QUEUE = "evenkeel"
WORKERS_LEAST = 4  # a tick, a sample and history may all take long: a rebalance waits for none
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
        "tick": {"task": "dashboard.tick", "schedule": 1.0, "options": {"expires": 2}},
        "keep_users": {"task": "dashboard.keep_users", "schedule": 1.0, "options": {"expires": 2}},
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
