"""Plain HTTP where other machines come: pages send to HTTPS, agents' routes refuse."""

import json
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.asgi import application

JOIN = "/api/agent/v1/g/join"


async def asked(scheme: str, *headers: tuple[bytes, bytes]) -> tuple[int, str]:
    """Status and title of the answer to one who brings no token."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body is not read")

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": JOIN, "scheme": scheme}
    await application({**scope, "headers": list(headers)}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])["title"]


async def test_agents_are_refused_before_their_token_is_looked_at(settings: Settings) -> None:
    settings.DEVELOPMENT = False
    assert await asked("http") == (403, "Plain HTTP")
    assert await asked("https") == (401, "No token")
    settings.DEVELOPMENT = True
    assert await asked("http") == (401, "No token")


async def test_behind_a_proxy_its_header_says_how_they_came(settings: Settings) -> None:
    settings.DEVELOPMENT, settings.BEHIND_PROXY = False, True
    assert await asked("http", (b"x-forwarded-proto", b"https")) == (401, "No token")
    assert await asked("https", (b"x-forwarded-proto", b"http")) == (403, "Plain HTTP")
    settings.BEHIND_PROXY = False
    assert await asked("http", (b"x-forwarded-proto", b"https")) == (403, "Plain HTTP")


async def test_agents_name_a_host_that_this_dashboard_has(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1", "[::1]", "keel.example.org"]
    for host in (b"127.0.0.1:8000", b"[::1]:8000", b"KEEL.example.org"):
        assert await asked("http", (b"host", host)) == (401, "No token")
    for host in (b"10.0.0.1:8000", b"evil.example.org", b"", b"\xff", b"keel.example.org:x"):
        assert await asked("http", (b"host", host)) == (400, "Unknown host")


@pytest.mark.django_db
def test_pages_send_to_https_and_health_answers(settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT = True
    sent = Client().get("/groups/")
    assert (sent.status_code, sent["Location"]) == (301, "https://testserver/groups/")
    assert Client().get("/healthz").status_code == 200
    assert Client().get("/login/", secure=True).status_code == 200
