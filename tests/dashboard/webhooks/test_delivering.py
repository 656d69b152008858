"""Deliveries: signed, tried again, bounded, on record; against a real HTTP server."""

import hashlib
import hmac
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from dashboard.actions import attention, webhooks
from dashboard.coordinator import attending
from dashboard.coordinator.attending import Taken
from dashboard.live.attention import DEFAULTS
from dashboard.models import (
    AuditSource,
    Delivery,
    DeliveryState,
    Group,
    Occurrence,
    Sample,
    Webhook,
)
from dashboard.records.audit import By
from dashboard.webhooks import queue, sending
from tests.dashboard.webhooks.conftest import ADMIN, START_MS, Receiver, a_row

# --- what is sent ---------------------------------------------------------------------------------


def test_a_delivery_is_signed_as_the_docs_say(
    made: webhooks.MadeWebhook, receiver: Receiver
) -> None:
    row = webhooks.send_test(made.webhook, ADMIN)
    assert queue.deliver_webhooks() == 1
    ((path, headers, body),) = receiver.taken
    assert path == "/hook?key=path-secret" and json.loads(body)["event"] == "test"
    assert headers["Content-Type"] == "application/json"
    assert (headers["Evenkeel-Event"], headers["Evenkeel-Delivery"]) == ("test", str(row.pk))
    at = headers["Evenkeel-Timestamp"]
    assert at == str(START_MS // 1000)
    signed = hmac.new(made.secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["Evenkeel-Signature"] == f"v1={signed}"
    row.refresh_from_db()
    assert (row.state, row.status, row.tries, row.problem) == ("delivered", 200, 1, "")
    assert queue.deliver_webhooks() == 0 and len(receiver.taken) == 1


def test_what_begins_is_acknowledged_and_ends_is_told(
    made: webhooks.MadeWebhook, receiver: Receiver, group: Group
) -> None:
    def sampled(at_ms: int, conflicts: int) -> None:
        row = Sample.objects.create(
            group=group, at_ms=at_ms, members=1, owned=4, conflicts=conflicts, stalled=0
        )
        attending.look([Taken(group, row, DEFAULTS)])

    sampled(5_000, 2)
    row = Occurrence.objects.get()
    attention.acknowledge(row, By("bob", AuditSource.PAGE, "on it"), 6_000)
    sampled(10_000, 1)
    sampled(45_000, 0)
    for _ in range(3):
        queue.deliver_webhooks()
    told = [json.loads(body) for _, _, body in receiver.taken]
    assert [one["event"] for one in told] == ["raised", "acknowledged", "ended"]
    first, noted, over = told
    assert {one["group"] for one in told} == {group.name}
    assert (first["rule"], first["why"]) == ("conflict", "2 partitions with two claims")
    assert first["url"].endswith(f"/groups/{group.name}/attention/")
    assert (first["began_at_ms"], first["ended_at_ms"], first["acknowledged"]) == (
        5_000,
        None,
        None,
    )
    assert noted["acknowledged"] == {"by": "bob", "at_ms": 6_000, "note": "on it"}
    assert over["ended_at_ms"] == 10_000


def test_without_a_webhook_nothing_is_kept(group: Group) -> None:
    row = Sample.objects.create(group=group, at_ms=1, members=1, owned=4, conflicts=1)
    attending.look([Taken(group, row, DEFAULTS)])
    assert Occurrence.objects.exists() and not Delivery.objects.exists()


# --- what fails -----------------------------------------------------------------------------------


def test_what_fails_is_tried_again_so_often_with_longer_waits(
    made: webhooks.MadeWebhook, receiver: Receiver, clock: dict[str, int]
) -> None:
    receiver.answer = 503
    webhooks.send_test(made.webhook, ADMIN)
    for number, wait_ms in enumerate(queue.WAITS_MS, 1):
        queue.deliver_webhooks()
        row = a_row()
        assert (row.state, row.tries, row.status) == ("pending", number, 503)
        assert row.problem == "it answered 503" and row.due_at_ms == clock["ms"] + wait_ms
        clock["ms"] += wait_ms - 1
        queue.deliver_webhooks()
        assert a_row().tries == number, "it waits"
        clock["ms"] += 1
    queue.deliver_webhooks()
    row = a_row()
    assert (row.state, row.tries) == ("failed", queue.TRIES_MAX)
    clock["ms"] += 10**9
    queue.deliver_webhooks()
    assert len(receiver.taken) == queue.TRIES_MAX
    assert len({headers["Evenkeel-Delivery"] for _, headers, _ in receiver.taken}) == 1
    assert len({headers["Evenkeel-Timestamp"] for _, headers, _ in receiver.taken}) > 1


def test_what_failed_once_may_be_taken_later(
    made: webhooks.MadeWebhook, receiver: Receiver, clock: dict[str, int]
) -> None:
    receiver.answer = 500
    webhooks.send_test(made.webhook, ADMIN)
    queue.deliver_webhooks()
    receiver.answer = 204
    clock["ms"] += queue.WAITS_MS[0]
    assert queue.deliver_webhooks() == 1
    assert (a_row().state, a_row().status, a_row().problem) == ("delivered", 204, "")


def test_a_redirect_is_not_followed(made: webhooks.MadeWebhook, receiver: Receiver) -> None:
    receiver.answer = 307
    webhooks.send_test(made.webhook, ADMIN)
    assert queue.deliver_webhooks() == 0
    assert [path for path, _, _ in receiver.taken] == ["/hook?key=path-secret"]
    assert a_row().problem == "it answered 307, a redirect, which is not followed"


def test_an_answer_that_comes_byte_by_byte_is_given_up(
    made: webhooks.MadeWebhook, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "ANSWER_S", 0.2)
    over = threading.Event()

    def drips(handler: BaseHTTPRequestHandler) -> None:
        try:
            while not over.wait(0.01):
                handler.wfile.write(b"H")
        except OSError:
            pass

    receiver.answer = drips
    webhooks.send_test(made.webhook, ADMIN)
    assert queue.deliver_webhooks() == 0
    over.set()
    row = a_row()
    assert row.state == "pending" and row.status is None and row.problem


def test_nobody_who_listens_is_a_problem_and_no_error(
    made: webhooks.MadeWebhook, receiver: Receiver, settings: Settings, caplog: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    settings.WEBHOOK_HOSTS = [f"127.0.0.1:{port}"]
    Webhook.objects.update(url=f"http://127.0.0.1:{port}/path-secret")
    made.webhook.refresh_from_db()
    webhooks.send_test(made.webhook, ADMIN)
    assert queue.deliver_webhooks() == 0
    assert a_row().problem.startswith("ConnectionRefusedError")
    assert f"127.0.0.1:{port}" in caplog.text
    assert "path-secret" not in caplog.text and made.secret not in caplog.text


def test_a_webhook_that_fails_does_not_keep_the_others_waiting(
    made: webhooks.MadeWebhook, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "DUE_MAX", 2)  # of one run: fewer than wait for the one that fails
    other = webhooks.create("other", f"http://127.0.0.1:{receiver.port}/other", ADMIN)

    def fails(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(500 if handler.path.startswith("/hook") else 200)
        handler.end_headers()

    receiver.answer = fails
    for hook in (made.webhook, made.webhook, other.webhook):
        webhooks.send_test(hook, ADMIN)
    assert queue.deliver_webhooks() == 1
    assert [path.partition("?")[0] for path, _, _ in receiver.taken] == ["/hook", "/other"]


def test_the_queue_is_bounded_and_says_what_it_dropped(
    made: webhooks.MadeWebhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "WAITING_MAX", 2)
    states = [webhooks.send_test(made.webhook, ADMIN).state for _ in range(3)]
    assert states == ["pending", "pending", "dropped"]
    assert Delivery.objects.get(state="dropped").problem == "2 deliveries wait already"


def test_what_is_over_is_kept_for_a_while(
    made: webhooks.MadeWebhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "KEPT_MAX", 3)
    first = webhooks.send_test(made.webhook, ADMIN)
    for _ in range(5):
        Delivery.objects.update(state=DeliveryState.DELIVERED)
        last = webhooks.send_test(made.webhook, ADMIN)
    assert Delivery.objects.count() == 4
    assert not Delivery.objects.filter(pk=first.pk).exists()
    assert Delivery.objects.filter(pk=last.pk, state="pending").exists()


def test_two_workers_send_it_once(made: webhooks.MadeWebhook, receiver: Receiver) -> None:
    row = webhooks.send_test(made.webhook, ADMIN)
    same = Delivery.objects.get(pk=row.pk)
    assert queue._is_mine(row) and not queue._is_mine(same)
