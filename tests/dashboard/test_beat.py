"""Beat while no worker is there."""

from typing import Any

import pytest
from celery.beat import ScheduleEntry

from dashboard.celery import app
from dashboard.coordinator.beat import WAITING_MAX, BoundedScheduler


def test_what_waits_for_a_worker_is_bounded(
    store: Any, published: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = BoundedScheduler(app, schedule_filename=str(tmp_path / "schedule"), lazy=True)
    entry = ScheduleEntry(name="keep_users", task="dashboard.keep_users", schedule=1.0, app=app)
    for _ in range(WAITING_MAX + 20):
        scheduler.apply_async(entry, advance=False)
    assert published() == WAITING_MAX + 1
    assert "tasks wait for a worker" in caplog.text
