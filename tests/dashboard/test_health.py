"""/healthz and /readyz."""

from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard import coordinator
from dashboard.live import health as live_health

pytestmark = pytest.mark.django_db


def test_healthz_is_the_process_alone(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert client.get("/healthz").json() == {"status": "ok"}


def test_ready_when_everything_answers(client: Client, store: Any) -> None:
    coordinator.tick()
    answer = client.get("/readyz")
    assert answer.status_code == 200, answer.json()
    assert answer.json()["warnings"] == []
    assert set(answer.json()["checks"]) == {"database", "redis", "channel_layer", "celery"}


def test_redis_away_is_named(client: Client, point_at: Any) -> None:
    point_at("redis://127.0.0.1:1/0")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "Redis at 127.0.0.1:1/0 does not answer" in answer.json()["why"][0]


def test_appendonly_off_is_a_warning(client: Client, point_at: Any, own_redis: Any) -> None:
    point_at(own_redis.url)
    coordinator.tick()
    from dashboard.live.connection import sync_client

    sync_client().config_set("appendonly", "no")
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert "without appendonly" in answer.json()["warnings"][0]


def test_an_old_redis_is_named(client: Client, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_health, "OLDEST", (99, 0))
    answer = client.get("/readyz")
    assert "is too old: 99.0 or later is needed" in answer.json()["why"][0]


def test_a_tick_that_never_ran_is_named(client: Client, store: Any) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "the Celery tick never ran: no Celery worker answers" in answer.json()["why"][0]
