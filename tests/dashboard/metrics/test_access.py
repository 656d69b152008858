"""Who may read /metrics."""

from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.api import families
from dashboard.asgi import application
from dashboard.live.connection import close_async_client
from dashboard.web.visitors import Visitors
from tests.dashboard.metrics.told import BEARER, TOKEN
from tests.dashboard.served import GET, serving, until


@pytest.mark.django_db
@pytest.mark.parametrize(
    "said",
    ["", "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}0", f"Basic {TOKEN}", TOKEN],
)
def test_another_token_is_refused(client: Client, said: str) -> None:
    answer = client.get("/metrics", headers={"Authorization": said} if said else {})
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert b"evenkeel_" not in answer.content


@pytest.mark.django_db
def test_its_token_opens_it_and_nothing_else(client: Client) -> None:
    assert client.get("/metrics", headers=BEARER).status_code == 200
    assert client.head("/metrics", headers=BEARER).content == b""
    assert client.post("/metrics", headers=BEARER).status_code == 405
    assert client.get("/groups/", headers=BEARER).status_code == 302


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("development", "hosts", "address", "status"),
    [
        (True, ["localhost"], "127.0.0.1", 200),
        (True, ["localhost"], "::1", 200),
        (True, ["localhost"], "10.0.0.7", 401),
        (True, ["localhost"], "0.0.0.0", 401),
        (True, ["localhost"], "", 401),
        (True, ["localhost", "dashboard.example"], "127.0.0.1", 401),
        (False, ["localhost"], "127.0.0.1", 401),
    ],
)
def test_without_a_token_it_is_for_this_machine_in_development(
    settings: Settings, development: bool, hosts: list[str], address: str, status: int
) -> None:
    settings.METRICS_TOKEN, settings.ALLOWED_HOSTS = "", hosts
    settings.DEVELOPMENT = development
    client = Client(REMOTE_ADDR=address, HTTP_HOST="localhost")
    for said in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer "}):
        assert client.get("/metrics", headers=said, secure=True).status_code == status, said


@pytest.mark.django_db
def test_plain_http_is_refused_and_not_sent_on(client: Client, settings: Settings) -> None:
    settings.DEVELOPMENT, settings.SECURE_SSL_REDIRECT = False, True
    answer = client.get("/metrics", headers=BEARER)
    assert (answer.status_code, b"HTTPS" in answer.content) == (403, True)
    assert client.get("/metrics", headers=BEARER, secure=True).status_code == 200


@pytest.mark.django_db(transaction=True)
async def test_a_wrong_token_is_a_strangers_and_the_right_one_is_not(store: Any) -> None:
    start = GET.replace(b"GET /", b"GET /metrics")
    async with serving(application, Visitors(per_address=2, patience_s=0.0)) as web:
        reader = await web.open()
        asked = start + b"Authorization: Bearer %s\r\n\r\n"
        status, told = await reader.ask(asked % TOKEN.encode())
        assert (status, b"\nevenkeel_groups 0.0\n" in told) == (200, True)
        await until(lambda: web.strangers == 0)
        for _ in range(6):
            await web.open(GET)
        assert (await reader.ask(asked % TOKEN.encode()))[0] == 200
        wrong = await web.open(asked % b"wrong")
        assert b" 401 " in (await wrong.ended()).split(b"\r\n")[0], "answered, and ended"
    await close_async_client()


@pytest.mark.django_db
def test_a_database_that_is_away_is_said(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr(families.group_queries, "stored", away)
    answer = client.get("/metrics", headers=BEARER)
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
