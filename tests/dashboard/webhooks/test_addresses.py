"""Which addresses are never asked, and that the one that was checked is connected to."""

import socket
from ipaddress import ip_network
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from assignment.errors import InvalidInput
from dashboard.actions import webhooks
from dashboard.models import (
    Webhook,
)
from dashboard.webhooks import addresses, queue
from tests.dashboard.webhooks.conftest import ADMIN, Receiver, a_row


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://hooks.example.org/", "is not of the form https://"),
        ("https:///x", "is not of the form https://"),
        ("https://a:b@hooks.example.org/", "a user name or a password"),
        ("http://hooks.example.org/", "is told over https:// only"),
        ("https://other.example.org/", "is not in EVENKEEL_WEBHOOK_HOSTS"),
        ("https://hooks.example.org:8443/", "is not in EVENKEEL_WEBHOOK_HOSTS"),
        ("https://hooks.example.org.evil.test/", "is not in EVENKEEL_WEBHOOK_HOSTS"),
        ("https://hooks.example.org\n.evil.test/", "printable ASCII"),
        ("https://hooks.example.org:port/", "cannot be read"),
        ("http://127.0.0.1/", "is not in EVENKEEL_WEBHOOK_HOSTS"),
        (f"https://hooks.example.org/{'a' * 500}", "of 1 to 500"),
    ],
)
def test_an_address_that_is_not_allowed_is_named(
    db: None, settings: Settings, url: str, said: str
) -> None:
    settings.WEBHOOK_HOSTS = ["hooks.example.org"]
    with pytest.raises(InvalidInput, match=said):
        webhooks.create("ops", url, ADMIN)
    assert not Webhook.objects.exists()


def test_by_default_nobody_is_told(settings: Settings) -> None:
    assert settings.WEBHOOK_HOSTS == [] and settings.WEBHOOK_NETWORKS == []
    with pytest.raises(InvalidInput, match="EVENKEEL_WEBHOOK_HOSTS"):
        addresses.target_of("https://hooks.example.org/")


@pytest.mark.parametrize("host", ["Hooks.Example.Org", "hooks.example.org:443"])
def test_names_are_compared_as_names(settings: Settings, host: str) -> None:
    settings.WEBHOOK_HOSTS = [host]
    target = addresses.target_of("https://HOOKS.example.org/a?b=c")
    assert (target.host, target.port, target.path) == ("hooks.example.org", 443, "/a?b=c")


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("172.16.9.9", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("2002:a00:1::", False),
    ],
)
def test_addresses_inside_are_not_told(settings: Settings, address: str, allowed: bool) -> None:
    assert addresses.may_be_told(address) is allowed
    settings.WEBHOOK_NETWORKS = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert addresses.may_be_told(address)


def test_a_name_that_leads_inside_is_not_told(
    made: webhooks.MadeWebhook, receiver: Receiver, settings: Settings
) -> None:
    """As soon as one of its addresses does; nothing is sent."""
    settings.WEBHOOK_NETWORKS = []
    webhooks.send_test(made.webhook, ADMIN)
    assert queue.deliver_webhooks() == 0
    assert receiver.taken == []
    assert "is at 127.0.0.1, which is not public" in a_row().problem


def test_the_address_that_was_checked_is_the_one_connected_to(
    made: webhooks.MadeWebhook,
    receiver: Receiver,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that is looked up again may lead elsewhere by then."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def looked_up(host: Any, *args: Any, **more: Any) -> Any:
        asked.append(str(host))
        return real("127.0.0.1", *args, **more)

    settings.WEBHOOK_HOSTS = [f"localhost:{receiver.port}"]
    Webhook.objects.update(url=f"http://localhost:{receiver.port}/")
    made.webhook.refresh_from_db()
    webhooks.send_test(made.webhook, ADMIN)
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    assert queue.deliver_webhooks() == 1
    assert asked.count("localhost") == 1
    assert receiver.taken[0][1]["Host"] == f"localhost:{receiver.port}"


def test_a_host_that_is_allowed_no_longer_is_not_told(
    made: webhooks.MadeWebhook, receiver: Receiver, settings: Settings
) -> None:
    webhooks.send_test(made.webhook, ADMIN)
    settings.WEBHOOK_HOSTS = []
    assert queue.deliver_webhooks() == 0
    assert receiver.taken == [] and "EVENKEEL_WEBHOOK_HOSTS" in a_row().problem
