"""A provider that is slow, endless, down or not what it should be: a page with a sentence."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.single_sign_on import asking
from dashboard.single_sign_on import provider as provider_module
from tests.dashboard.single_sign_on.flow import (
    BEGIN,
    configuration,
    last,
    log_in,
    signed_by_an_unknown_key,
    who,
)
from tests.fakes.openid import KEY, Handler, OpenIdProvider, public

pytestmark = pytest.mark.django_db


def slow_header(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for n in range(10_000):
        try:
            handler.wfile.write(b"X-%d: y\r\n" % n)
        except OSError:
            return
        time.sleep(0.02)


def endless(handler: Handler) -> None:
    """A GiB, unless somebody hangs up."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(2**30))
    handler.end_headers()
    sent[0] = 0
    try:
        for _ in range(2**10):
            sent[0] += handler.wfile.write(b" " * 2**20)
    except OSError:
        pass


def slow_body(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(1_000):
        try:
            handler.wfile.write(b" ")
        except OSError:
            return
        time.sleep(0.02)


sent = [0]
PATHS = ("/.well-known/openid-configuration", "/keys", "/token")
TROUBLE: dict[str, tuple[Callable[[Handler], None], str]] = {
    "an error": (lambda h: h.say(503, b"{}"), "failed: it answered 503"),
    "another page": (lambda h: h.say(302, b"", Location="http://127.0.0.1:1/"), ""),
    "no JSON": (lambda h: h.say(200, b"<html>"), ""),
    "a list": (lambda h: h.say(200, b"[]"), ""),
    "deep": (lambda h: h.say(200, b"[" * 100_000), ""),
    "no text": (lambda h: h.say(200, b"\xff\xfe\x00"), ""),
    "hang up": (lambda h: None, "cannot be reached"),
    "endless": (endless, "cannot be reached: ValueError"),
    "slow header": (slow_header, "did not answer in time"),
    "slow body": (slow_body, "did not answer in time"),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("what", TROUBLE)
def test_a_provider_in_trouble_is_a_page_with_a_sentence(
    provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch, what: str, path: str
) -> None:
    monkeypatch.setattr(asking, "ANSWER_S", 0.3)
    provider.answers[path], said = TROUBLE[what]
    client = Client()
    answer = client.post(BEGIN) if path == PATHS[0] else log_in(provider, client)
    assert answer.status_code in (403, 503)
    assert answer.status_code == 503 or not said
    assert said in answer.content.decode()
    assert who(client) is None
    assert last("failed log in").result.startswith("failed: ")
    assert sent[0] < 2**26


def test_a_provider_that_is_down_is_asked_once_in_a_while(
    provider: OpenIdProvider, settings: Settings
) -> None:
    settings.SINGLE_SIGN_ON = configuration("http://127.0.0.1:1")
    for _ in range(3):
        answer = Client().post(BEGIN)
        assert answer.status_code == 503
        assert "127.0.0.1 cannot be reached: ConnectionError" in answer.content.decode()
    settings.SINGLE_SIGN_ON = configuration(provider.issuer)
    for _ in range(3):
        log_in(provider, Client())
    assert provider.asked.count(PATHS[0]) == provider.asked.count("/keys") == 1


def test_so_many_may_wait_for_a_provider_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "places", threading.BoundedSemaphore(asking.AT_ONCE))
    end = threading.Event()
    for _ in range(asking.AT_ONCE):
        with pytest.raises(TimeoutError):
            asking.within(0.01, end.wait)
    with pytest.raises(TimeoutError):
        asking.within(0.05, lambda: None)
    end.set()
    assert asking.within(5.0, lambda: 7) == 7


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"issuer": "https://evil.example"}, "of another issuer than EVENKEEL_SSO_ISSUER"),
        ({"token_endpoint": "http://example.org/token"}, "no token_endpoint that may be used"),
        ({"jwks_uri": "file:///etc/passwd"}, "no jwks_uri that may be used"),
        ({"authorization_endpoint": "javascript:x"}, "no authorization_endpoint that may"),
        ({"token_endpoint": 7}, "no token_endpoint that may be used"),
    ],
)
def test_a_description_that_cannot_be_used_is_said(
    provider: OpenIdProvider, said: dict[str, Any], sentence: str
) -> None:
    provider.description = said
    answer = Client().post(BEGIN)
    assert answer.status_code == 503
    assert sentence in answer.content.decode()


def test_a_wrong_secret_is_nobodys_guess(provider: OpenIdProvider, settings: Settings) -> None:
    settings.SINGLE_SIGN_ON = configuration(provider.issuer, secret="former")
    answer = log_in(provider, Client())
    assert answer.status_code == 503
    assert "does not take the client id and secret" in answer.content.decode()
    assert not AccessAttempt.objects.exists()


def test_a_new_key_of_the_provider_is_fetched(
    provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(provider, Client())
    provider.sign = signed_by_an_unknown_key
    provider.keys.append(public(KEY, "k2"))
    assert log_in(provider, Client()).status_code == 403, "asked for lately"
    monkeypatch.setattr(provider_module, "KEYS_AGAIN_S", 0.0)
    client = Client()
    log_in(provider, client)
    assert who(client) is not None
