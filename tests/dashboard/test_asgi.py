"""Who connected: what clients claim of themselves counts only behind a proxy. How it ends."""

import asyncio
import gc
import sys
from typing import Any

import pytest
import uvicorn
from pytest_django.fixtures import Settings

from dashboard import asgi
from dashboard.asgi import NOBODY, application, as_connected
from dashboard.models import AuditEntry
from dashboard.records import audit
from dashboard.records.audit import By
from dashboard.web import __main__ as web
from dashboard.web.visitors import PEER


def scope(client: str = "127.0.0.1", kind: str = "http", **headers: str) -> dict[str, Any]:
    made = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    return {"type": kind, "client": (client, 5), "scheme": "http", "headers": made}


CLAIMS = {"x_forwarded_for": "1.2.3.4, 5.6.7.8", "x_forwarded_proto": "http,https"}


def test_nobody_is_believed(settings: Settings) -> None:
    settings.BEHIND_PROXY = False
    found = as_connected(scope(**CLAIMS, forwarded="for=9.9.9.9", x_real_ip="9.9.9.9", host="h"))
    assert found["headers"] == [(b"host", b"h")]
    assert (found["client"], found["scheme"]) == (("127.0.0.1", 5), "http")


@pytest.mark.parametrize("claimed", ["1.2.3.4", "1.2.3.4:77", "9.9.9.9, 1.2.3.4", "[::7]:9"])
def test_a_server_that_believed_it_is_not_believed_either(settings: Settings, claimed: str) -> None:
    """25 forged addresses are one: a limit of an address counts them together."""
    settings.BEHIND_PROXY = False
    believed = "::7" if "::" in claimed else "1.2.3.4"
    assert as_connected(scope(believed, x_forwarded_for=claimed))["client"] == (NOBODY, 0)


@pytest.mark.parametrize(
    ("believed", "claimed"), [("10.0.0.9", "10.0.0.9"), ("1.2.3.4", "1.2.3.4"), ("10.0.0.9", "::1")]
)
def test_our_own_server_says_who_connected(settings: Settings, believed: str, claimed: str) -> None:
    """Whoever claims his own address has no second bucket by it, in the audit nor in the limits."""
    settings.BEHIND_PROXY = False
    asked = scope(believed, x_forwarded_for=claimed) | {"state": {PEER: ("10.0.0.9", 5)}}
    assert as_connected(asked)["client"] == ("10.0.0.9", 5)
    settings.BEHIND_PROXY = True
    assert as_connected(asked)["client"] == (claimed, 0)


def test_our_own_server_leaves_what_a_proxy_says_to_us(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[bool]()
    monkeypatch.setattr(
        uvicorn.main, "callback", lambda **options: begun.append(options["proxy_headers"])
    )
    monkeypatch.setattr(sys, "argv", ["web", "--proxy-headers", "--port", "1"])
    with pytest.raises(SystemExit):
        web.main()
    assert begun == [False]


@pytest.mark.parametrize("other", [["--workers", "2"], ["--uds", "file"], ["--reload"]])
def test_a_shared_port_is_for_processes_that_are_started_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], other: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["web", "--port", "1", "--shared-port", "2", *other])
    with pytest.raises(SystemExit) as ended:
        web.main()
    assert ended.value.code == web.BAD_INPUT
    assert f"does not go with {other[0]}" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "scheme"), [("http", "https"), ("websocket", "wss")])
def test_behind_a_proxy_what_it_added_itself_counts(
    settings: Settings, kind: str, scheme: str
) -> None:
    settings.BEHIND_PROXY = True
    found = as_connected(scope(kind=kind, **CLAIMS))
    assert (found["client"][0], found["scheme"]) == ("5.6.7.8", scheme)
    assert found["headers"] == []


@pytest.mark.parametrize("claimed", ["", "unknown", "1.2.3.4, evil"])
def test_an_address_that_is_none_is_not_taken(settings: Settings, claimed: str) -> None:
    settings.BEHIND_PROXY = True
    assert as_connected(scope(x_forwarded_for=claimed))["client"] == ("127.0.0.1", 5)


@pytest.mark.django_db(transaction=True)
async def test_what_was_only_counted_is_on_record_when_the_process_ends() -> None:
    def flood() -> None:
        for _ in range(3):
            audit.denied(By("ann", "page"), "turn", why="no right")

    await asyncio.to_thread(flood)
    told = list[str]()

    async def receive() -> dict[str, str]:
        return {"type": "lifespan.shutdown"}

    async def send(message: dict[str, Any]) -> None:
        told.append(message["type"])

    await application({"type": "lifespan"}, receive, send)
    assert told == ["lifespan.shutdown.complete"]
    rows = await asyncio.to_thread(lambda: list(AuditEntry.objects.order_by("seq")))
    assert [row.count for row in rows] == [1, 2]


@pytest.mark.parametrize(
    ("kind", "path", "query"),
    [
        ("http", "/groups/a\0b/", b""),
        ("http", "/audit/", b"actor=a%00b"),
        ("websocket", "/ws/group/a\0b/", b""),
    ],
)
async def test_what_no_database_takes_is_answered_before_one_is_asked(
    kind: str, path: str, query: bytes
) -> None:
    told = list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    own = (b"host", b"localhost"), (b"origin", b"http://localhost")
    asked = {"method": "GET", "path": path, "query_string": query, "headers": own, "state": {}}
    await application({**scope(kind=kind), "subprotocols": [], **asked}, receive, send)
    assert told[0].get("status", told[0]["type"]) in (400, "websocket.close")


async def test_a_server_that_starts_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that neither collecting garbage nor a thread at work holds the loop up for long; and it
    has its memory in large pages.
    """
    enlarged: list[bool] = []
    monkeypatch.setattr(asgi.memory, "keep_in_large_pages", lambda: enlarged.append(True))
    before_s, events = sys.getswitchinterval(), iter(["startup", "shutdown"])

    async def receive() -> dict[str, Any]:
        return {"type": f"lifespan.{next(events)}"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "lifespan.startup.complete":
            assert gc.get_freeze_count() > 0
            assert sys.getswitchinterval() == pytest.approx(asgi.SWITCH_S)
            assert enlarged

    gc.unfreeze()
    try:
        await asgi.application({"type": "lifespan"}, receive, send)
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before_s)
