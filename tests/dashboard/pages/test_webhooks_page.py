"""/webhooks/: create, shown once, try, new secret, remove; and what became of deliveries."""

import re

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.models import Delivery, Webhook

ADDRESS = "/webhooks/"
URL = "https://hooks.example.org/in?key=1"


@pytest.fixture
def allowed(settings: Settings) -> None:
    settings.WEBHOOK_HOSTS = ["hooks.example.org"]


def secret_in(page: str) -> str:
    found = re.search(r'<pre class="wrap" id="secret">([^<]+)</pre>', page)
    assert found, page
    return found[1]


def test_without_an_allowed_host_it_says_how_to_allow_one(visitor: Client) -> None:
    page = visitor.get(ADDRESS).content.decode()
    assert "EVENKEEL_WEBHOOK_HOSTS=hooks.example.org" in page
    sent = {"do": "create", "name": "ops", "url": URL}
    assert "is not in EVENKEEL_WEBHOOK_HOSTS" in visitor.post(ADDRESS, sent).content.decode()
    assert not Webhook.objects.exists()


def test_a_secret_is_shown_once_and_another_one_on_demand(visitor: Client, allowed: None) -> None:
    answer = visitor.post(ADDRESS, {"do": "create", "name": "ops", "url": URL})
    secret = secret_in(answer.content.decode())
    assert answer["Cache-Control"] == "no-store"
    page = visitor.get(ADDRESS).content.decode()
    assert secret not in page and "hooks.example.org" in page
    key = Webhook.objects.get().pk
    again = visitor.post(ADDRESS, {"do": "rotate", "webhook": key})
    assert secret_in(again.content.decode()) != secret


def test_a_test_is_put_with_what_waits_and_listed(visitor: Client, allowed: None) -> None:
    visitor.post(ADDRESS, {"do": "create", "name": "ops", "url": URL})
    key = Webhook.objects.get().pk
    assert visitor.post(ADDRESS, {"do": "test", "webhook": key}).status_code == 302
    assert Delivery.objects.get().event == "test"
    fragment = visitor.get(f"{ADDRESS}?fragment=deliveries").content.decode()
    assert "<html" not in fragment and "pending" in fragment
    assert visitor.post(ADDRESS, {"do": "remove", "webhook": key}).status_code == 302
    assert not Webhook.objects.exists() and not Delivery.objects.exists()


def test_what_is_allowed_no_longer_is_not_tried(
    visitor: Client, allowed: None, settings: Settings
) -> None:
    visitor.post(ADDRESS, {"do": "create", "name": "ops", "url": URL})
    settings.WEBHOOK_HOSTS = []
    sent = {"do": "test", "webhook": Webhook.objects.get().pk}
    assert "is not in EVENKEEL_WEBHOOK_HOSTS" in visitor.post(ADDRESS, sent).content.decode()
    assert not Delivery.objects.exists()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 400),
        ({"do": "nothing"}, 400),
        ({"do": "remove", "webhook": "7"}, 404),
        ({"do": "remove", "webhook": "x"}, 404),
        ({"do": "remove", "webhook": "7", "more": "1"}, 400),
        ({"do": "create", "name": "a b", "url": URL}, 200),
        ({"do": "create", "name": "", "url": ""}, 200),
    ],
)
def test_what_is_wrong_is_said(
    visitor: Client, allowed: None, sent: dict[str, str], status: int
) -> None:
    assert visitor.post(ADDRESS, sent).status_code == status
    assert not Webhook.objects.exists()
