"""Over HTTPS: only who shows a certificate of the very name is told anything."""

import ssl
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from dashboard.actions import webhooks
from dashboard.webhooks import queue
from tests.dashboard.webhooks.conftest import ADMIN, Receiver, a_row, serving
from tests.fakes import authority

pytestmark = pytest.mark.django_db


@pytest.fixture
def trusted(tmp_path: Path, settings: Settings) -> Iterator[tuple[Receiver, Path]]:
    """A receiver with a certificate of localhost, and the authority that signed it."""
    root, own = authority.made_in(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    made = Receiver()
    with serving(made, context):
        settings.WEBHOOK_HOSTS = [f"{host}:{made.port}" for host in ("localhost", "127.0.0.1")]
        settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
        yield made, root


def told(receiver: Receiver, host: str) -> int:
    made = webhooks.create("ops", f"https://{host}:{receiver.port}/hook", ADMIN)
    webhooks.send_test(made.webhook, ADMIN)
    return queue.deliver_webhooks()


def test_who_shows_the_certificate_of_its_name_is_told(
    trusted: tuple[Receiver, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, root = trusted
    monkeypatch.setenv("SSL_CERT_FILE", str(root))
    assert told(receiver, "localhost") == 1
    assert receiver.taken[0][0] == "/hook" and a_row().status == 200


def test_a_certificate_of_another_name_is_refused(
    trusted: tuple[Receiver, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, root = trusted
    monkeypatch.setenv("SSL_CERT_FILE", str(root))
    assert told(receiver, "127.0.0.1") == 0
    assert receiver.taken == [] and "CERTIFICATE_VERIFY_FAILED" in a_row().problem


def test_a_certificate_that_nobody_vouches_for_is_refused(trusted: tuple[Receiver, Path]) -> None:
    receiver, _ = trusted
    assert told(receiver, "localhost") == 0
    assert receiver.taken == [] and "CERTIFICATE_VERIFY_FAILED" in a_row().problem
