"""/healthz and /readyz."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection as database
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard import coordinator
from dashboard.api import health
from dashboard.coordinator import tasks
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.live import connection, deadline, queue
from dashboard.live import health as live_health
from dashboard.live import rights as live_rights
from dashboard.live.connection import sync_client
from dashboard.live.health import Sign
from dashboard.models import Group
from tests.dashboard.people import granted, logged_in

pytestmark = pytest.mark.django_db


def test_healthz_is_the_process_alone(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert client.get("/healthz").json() == {"status": "ok"}


def everybody_lives() -> None:
    """As beat and a worker with its ticker tell."""
    for sign in (Sign.BEAT, Sign.WORKER):
        live_health.stamp(sign)
    coordinator.tick()


def test_ready_when_everything_answers(client: Client, store: Any) -> None:
    everybody_lives()
    answer = client.get("/readyz")
    assert answer.status_code == 200, answer.json()
    assert answer.json()["warnings"] == []
    assert set(answer.json()["checks"]) == {
        *("database", "audit", "redis", "channel_layer", "celery")
    }


def test_redis_away_is_named(client: Client, point_at: Any) -> None:
    point_at("redis://127.0.0.1:1/0")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "Redis at 127.0.0.1:1/0 does not answer" in answer.json()["why"][0]


def test_appendonly_off_is_a_warning(client: Client, point_at: Any, own_redis: Any) -> None:
    point_at(own_redis.url)
    coordinator.tick()
    sync_client().config_set("appendonly", "no")
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert "without appendonly" in answer.json()["warnings"][0]


def test_connections_that_run_out_are_a_warning(
    client: Client, point_at: Any, own_redis: Any
) -> None:
    point_at(own_redis.url)
    everybody_lives()
    found = client.get("/readyz").json()
    told = found["checks"]["redis"]
    assert 1 <= told["clients"] < told["clients_max"]
    assert found["warnings"] == []
    most = int(told["clients"] / live_health.ALMOST_FULL)
    sync_client().config_set("maxclients", most)
    assert f"of {most} connections" in client.get("/readyz").json()["warnings"][0]


@pytest.mark.skipif(database.vendor != "postgresql", reason="it is PostgreSQL's")
def test_connections_of_postgresql_that_run_out_are_a_warning(
    client: Client, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody_lives()
    found = client.get("/readyz").json()
    told = found["checks"]["database"]
    assert 1 <= told["connections"] < told["connections_max"]
    assert found["warnings"] == []
    monkeypatch.setattr(live_health, "ALMOST_FULL", 1 / told["connections_max"])
    [warning] = client.get("/readyz").json()["warnings"]
    assert f"of {told['connections_max']} connections" in warning


def test_a_redis_that_does_not_tell_its_limit_is_not_almost_full() -> None:
    known = live_health.RedisHealth("6.2", True, {}, 0, clients=10_000)
    assert (known.clients_max, known.is_almost_full) == (None, False)


def test_an_old_redis_is_named(client: Client, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (live_health, health):
        monkeypatch.setattr(module, "OLDEST", (99, 0))
    answer = client.get("/readyz")
    assert "is too old: 99.0 or later is needed" in answer.json()["why"][0]


@pytest.mark.parametrize(
    ("tickers", "who"),
    [
        (0, "no Celery worker answers"),
        (1, "its first round goes on, or it fails, and the worker's log says why"),
    ],
)
def test_who_keeps_the_tick_away_is_named(
    client: Client, store: Any, tickers: int, who: str
) -> None:
    for number in range(tickers):
        queue.ticker_lives(f"ticker-{number}")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["why"] == [
        f"the Celery tick never ran: {who}; no rebalance happens meanwhile"
    ]
    assert answer.json()["checks"]["redis"]["tickers"] == tickers


def test_beat_that_is_away_keeps_no_tick_away(client: Client, store: Any) -> None:
    coordinator.tick()
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["warnings"][0].startswith("beat is away: nothing is sampled")


def test_a_worker_that_ticks_and_begins_no_task_is_not_ready(client: Client, store: Any) -> None:
    live_health.stamp(Sign.BEAT)
    coordinator.tick()
    queue.ticker_lives("one")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["why"] == [
        "no Celery worker begins a task; no rebalance happens meanwhile"
    ]


def test_a_redis_that_refuses_writes_is_named_and_nobody_else_is_blamed(
    client: Client, point_at: Any, own_redis: EmbeddedRedis
) -> None:
    point_at(own_redis.url)
    coordinator.tick()
    sync_client().config_set("min-replicas-to-write", 1)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "NOREPLICAS Not enough good replicas to write" in answer.json()["why"][0]
    assert not any("beat" in why or "worker" in why for why in answer.json()["why"])


@pytest.mark.parametrize("check", ["_database", "_audit", "_redis", "_channel_layer", "_celery"])
def test_every_other_failure_is_an_answer_that_names_it(
    client: Client, store: Any, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no such codec")

    coordinator.tick()
    monkeypatch.setattr(health, check, broken)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    name = check.removeprefix("_")
    assert answer.json()["why"][0] == f"the check of {name} failed: RuntimeError: no such codec"


@pytest.fixture
def hung_redis(point_at: Any, own_redis: EmbeddedRedis) -> Iterator[EmbeddedRedis]:
    """One that accepts connections and answers nothing, after it was asked once."""
    point_at(own_redis.url)
    coordinator.tick()
    pid = own_redis.pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    yield own_redis
    os.kill(pid, signal.SIGCONT)


def test_a_hung_redis_costs_one_deadline_and_the_next_request_nothing(
    client: Client, hung_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits is counted, not timed: only the first request lets a call wait for an answer."""
    waited: list[float] = []
    settle = deadline.left_s
    monkeypatch.setattr(connection, "left_s", lambda s: waited.append(settle(s)) or waited[-1])
    monkeypatch.setattr(deadline, "REQUEST_S", 0.2)
    assert "Timeout" in client.get("/readyz").json()["why"][0]
    assert waited and max(waited) <= 0.2
    waited.clear()
    monkeypatch.setattr(deadline, "OPEN_S", 600.0)
    connection._breaker(hung_redis.url).open()
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "does not answer in time" in answer.json()["why"][0]
    assert waited == []


def test_one_request_tries_whether_redis_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now[0])
    breaker = deadline.Breaker()
    assert breaker.lets_pass()
    breaker.open()
    assert not breaker.lets_pass()
    now[0] += deadline.OPEN_S
    assert breaker.lets_pass()
    assert not breaker.lets_pass(), "the others wait for what the one finds"
    breaker.close()
    assert breaker.lets_pass()


def test_without_a_deadline_nobody_is_refused(store: Any) -> None:
    """The worker goes on asking: its calls have limits of their own."""
    connection._breaker(settings.REDIS_URL).open()
    assert live_health.look().ages_ms
    connection._breaker(settings.REDIS_URL).close()


def test_the_page_names_groups_by_rights(group: Group) -> None:
    live_health.note_look(group.name, is_well=False)
    live_health.stamp_tick(2)
    bob, carl = (User.objects.create(username=name) for name in ("bob", "carl"))
    granted(bob, "viewer", group.name, "deny")
    hidden = logged_in(bob).get("/status/").content.decode()
    assert "fails for 1 of 2 groups:" in hidden and group.name not in hidden
    assert f"for 1 of 2 groups ({group.name})" in logged_in(carl).get("/status/").content.decode()
    live_health.stamp_tick(1)
    hidden = logged_in(bob).get("/status/").content.decode()
    assert "Not ready" in hidden and group.name not in hidden


def test_addresses_of_replicas_are_for_people_who_are_logged_in(
    client: Client, admin_client: Client, store: Any
) -> None:
    coordinator.tick()
    live_rights.note(live_rights.Put(unreached=["10.1.2.3:6379", "10.1.2.4:6379"]))
    told = client.get("/readyz").content.decode()
    assert "users and scripts were not put on 2 replicas" in told
    assert "10.1.2." not in told
    page = admin_client.get("/status/").content.decode()
    assert "replicas 10.1.2.3:6379, 10.1.2.4:6379:" in page


def test_a_worker_lives_while_it_begins_any_task(
    monkeypatch: pytest.MonkeyPatch, store: Any
) -> None:
    """The one that is asked for most often waits behind the others, or expires."""
    now_s, given = [100.0], list[Sign]()
    monkeypatch.setattr(tasks, "sign", live_health.WorkerSign())
    monkeypatch.setattr(live_health, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(live_health, "stamp", given.append)
    monkeypatch.setattr(coordinator, "rebalance_in_turn", lambda *_: "nothing to do")
    for _ in range(1_000):
        assert tasks.rebalance("any") == "nothing to do"
    assert given == [Sign.WORKER]
    now_s[0] += live_health.SIGN_EVERY_S
    assert tasks.rebalance("any") == "nothing to do"
    assert given == [Sign.WORKER] * 2


def test_a_redis_that_takes_no_sign_stops_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Webhooks tell people of just that; nor is each task held up by a Redis that hangs."""
    tried = list[Sign]()

    def away(sign: Sign) -> None:
        tried.append(sign)
        raise connection.StoreUnavailable("Redis is away")

    monkeypatch.setattr(tasks, "sign", live_health.WorkerSign())
    monkeypatch.setattr(live_health, "stamp", away)
    monkeypatch.setattr(coordinator, "rebalance_in_turn", lambda *_: "done")
    assert [tasks.rebalance("any") for _ in range(10)] == ["done"] * 10
    assert len(tried) == 1
