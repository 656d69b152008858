"""Who makes webhooks, and where their secrets are not."""

import hashlib
import hmac

import pytest

from dashboard.actions import webhooks
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Denied, Rights
from dashboard.models import (
    AuditEntry,
    AuditSource,
    Delivery,
    Webhook,
)
from dashboard.records.audit import By
from dashboard.webhooks import queue
from dashboard.webhooks.stored import Event
from tests.dashboard.webhooks.conftest import ADMIN, Receiver


def test_a_secret_is_stored_and_audited_nowhere(
    made: webhooks.MadeWebhook, receiver: Receiver
) -> None:
    kept = str([*Webhook.objects.values(), *AuditEntry.objects.values()])
    assert made.secret not in kept and made.secret.removeprefix("ekw_") not in kept
    assert "path-secret" not in str([*AuditEntry.objects.values()])
    entry = AuditEntry.objects.get(action="create webhook")
    assert (entry.actor, entry.object) == ("ann", "ops")
    assert entry.after == {"host": f"127.0.0.1:{receiver.port}"}


def test_a_new_secret_signs_from_then_on(made: webhooks.MadeWebhook, receiver: Receiver) -> None:
    webhooks.send_test(made.webhook, ADMIN)
    again = webhooks.rotate(made.webhook, ADMIN)
    assert again.secret != made.secret
    queue.deliver_webhooks()
    ((_, headers, body),) = receiver.taken
    signed = f"{headers['Evenkeel-Timestamp']}.".encode() + body
    digest = hmac.new(again.secret.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["Evenkeel-Signature"] == f"v1={digest}"


def test_a_name_is_given_once_and_their_number_is_bounded(
    made: webhooks.MadeWebhook, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused, match="'ops' exists already"):
        webhooks.create("ops", receiver.url, ADMIN)
    monkeypatch.setattr(webhooks, "WEBHOOKS_MAX", 1)
    with pytest.raises(Refused, match="there are 1 webhooks already"):
        webhooks.create("more", receiver.url, ADMIN)


def test_who_may_not_manage_webhooks_does_nothing(
    made: webhooks.MadeWebhook, receiver: Receiver
) -> None:
    bob = By("bob", AuditSource.COMMAND, rights=Rights())
    for ask in (
        lambda: webhooks.create("new", receiver.url, bob),
        lambda: webhooks.rotate(made.webhook, bob),
        lambda: webhooks.send_test(made.webhook, bob),
        lambda: webhooks.remove(made.webhook, bob),
    ):
        with pytest.raises(Denied, match="to manage webhooks takes the role admin"):
            ask()
    assert Webhook.objects.get().salt == made.webhook.salt and not Delivery.objects.exists()


def test_what_waits_goes_with_its_webhook(made: webhooks.MadeWebhook, receiver: Receiver) -> None:
    queue.put_one(made.webhook, Event.TEST, "{}")
    webhooks.remove(made.webhook, ADMIN)
    assert not Delivery.objects.exists() and queue.deliver_webhooks() == 0
    assert AuditEntry.objects.filter(action="remove webhook", object="ops").exists()
