"""A real small HTTP server on 127.0.0.1 that keeps what it is sent, and a webhook to it."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_network
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from dashboard.actions import webhooks
from dashboard.models import AuditSource, Delivery
from dashboard.records.audit import By
from dashboard.webhooks import queue

ADMIN = By("ann", AuditSource.PAGE)
START_MS = 1_900_000_000_000


@dataclass(slots=True)
class Receiver:
    """Keeps what it is sent. `answer`: a status, or what is done with the connection instead."""

    port: int = 0
    answer: int | Callable[[BaseHTTPRequestHandler], None] = 200
    taken: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=path-secret"


@contextmanager
def serving(made: Receiver, certificate: ssl.SSLContext | None = None) -> Iterator[None]:
    """Its port is known then."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.taken.append((self.path, dict(self.headers), body))
            if callable(made.answer):
                made.answer(self)
                return
            self.send_response(made.answer)
            if 300 <= made.answer < 400:
                self.send_header("Location", f"http://127.0.0.1:{made.port}/elsewhere")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    if certificate is not None:
        server.socket = certificate.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    made = Receiver()
    with serving(made):
        settings.WEBHOOK_HOSTS = [f"127.0.0.1:{made.port}"]
        settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.0/8")]
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Of the queue, in milliseconds; a test moves it."""
    now = {"ms": START_MS}
    monkeypatch.setattr(queue, "now_ms", lambda: now["ms"])
    return now


@pytest.fixture
def made(db: None, receiver: Receiver, clock: dict[str, int]) -> webhooks.MadeWebhook:
    return webhooks.create("ops", receiver.url, ADMIN)


def a_row() -> Delivery:
    return Delivery.objects.get()
