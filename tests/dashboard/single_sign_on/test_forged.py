"""What a browser or a provider brings that is not believed."""

import base64
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from axes.models import AccessAttempt
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from dashboard.models import AuditEntry
from tests.dashboard.single_sign_on.flow import (
    BEGIN,
    CALLBACK,
    begun,
    last,
    log_in,
    signed_by_an_unknown_key,
    who,
)
from tests.fakes.openid import CLIENT_ID, KEY, SECRET, OpenIdProvider, new_key

pytestmark = pytest.mark.django_db


def signed_by_another(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, new_key(), algorithm="RS256", headers={"kid": "k1"})


def not_signed(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, None, algorithm="none", headers={"kid": "k1"})


def signed_with(key: bytes) -> Any:
    """An HMAC, by hand: no library makes one of a public key."""

    def sign(claims: dict[str, Any]) -> str:
        parts = [json.dumps(p).encode() for p in ({"alg": "HS256", "kid": "k1"}, claims)]
        text = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
        made = base64.urlsafe_b64encode(hmac.digest(key, text, "sha256")).rstrip(b"=")
        return b".".join((text, made)).decode()

    return sign


PUBLIC_PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "nonce": ({"claims": {"nonce": "another"}}, "its nonce is wrong"),
    "no nonce": ({"left_out": {"nonce"}}, "its nonce is wrong"),
    "audience": ({"claims": {"aud": "somebody-else"}}, "Audience doesn"),
    "audiences": ({"claims": {"aud": [CLIENT_ID, "other"]}}, "given to somebody else"),
    "authorized": ({"claims": {"azp": "other"}}, "given to somebody else"),
    "issuer": ({"claims": {"iss": "https://evil.example"}}, "Invalid issuer"),
    "expired": ({"claims": {"exp": int(time.time()) - 120}}, "Signature has expired"),
    "no end": ({"left_out": {"exp"}}, "missing the &quot;exp&quot; claim"),
    "of later": ({"claims": {"iat": int(time.time()) + 3_600}}, "not yet valid"),
    "no subject": ({"left_out": {"sub"}}, "missing the &quot;sub&quot; claim"),
    "a number": ({"claims": {"sub": 7}}, "Subject must be a string"),
    "long": ({"claims": {"sub": "s" * 192}}, "is not 1 to 191"),
    "empty": ({"claims": {"sub": ""}}, "is not 1 to 191"),
    "key": ({"sign": signed_by_another}, "Signature verification failed"),
    "unknown key": ({"sign": signed_by_an_unknown_key}, "no key of the provider"),
    "none": ({"sign": not_signed}, "the signature &#x27;none&#x27;"),
    "the secret": ({"sign": signed_with(SECRET.encode())}, "the signature &#x27;HS256&#x27;"),
    "the public key": ({"sign": signed_with(PUBLIC_PEM)}, "the signature &#x27;HS256&#x27;"),
    "nonsense": ({"sign": lambda claims: "a.b.c"}, "is not valid"),
    "no token": ({"sign": lambda claims: None}, "gave no id token"),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_is_forged_lets_nobody_in(provider: OpenIdProvider, what: str) -> None:
    changed, said = FORGED[what]
    for name, value in changed.items():
        setattr(provider, name, value)
    client = Client()
    answer = log_in(provider, client)
    assert answer.status_code == 403
    assert said in answer.content.decode()
    assert who(client) is None and not User.objects.exists()
    entry = last("failed log in")
    assert entry.object == "single sign-on" and entry.result.startswith("failed: ")


def test_a_state_that_this_browser_does_not_have_costs_nothing(provider: OpenIdProvider) -> None:
    """Whoever shows a link to it to somebody else neither logs them in nor locks them out."""
    brought = provider.authorize(begun(Client()))
    client = Client()
    provider.asked.clear()
    for query in (brought, {**brought, "state": "forged"}, {"code": "x"}, {"state": ""}, {}):
        answer = client.get(CALLBACK, query)
        assert answer.status_code == 400
        assert "did not begin in this browser" in answer.content.decode()
    assert provider.asked == [] and who(client) is None
    assert not AccessAttempt.objects.exists()
    assert last("failed log in").result.startswith("failed: this log in did not begin")


def test_a_state_and_a_code_are_good_for_once(provider: OpenIdProvider) -> None:
    client, other = Client(), Client()
    brought = provider.authorize(begun(client))
    assert client.get(CALLBACK, brought).status_code == 302
    client.post("/logout/")
    assert client.get(CALLBACK, brought).status_code == 400
    again = provider.authorize(begun(other)) | {"code": brought["code"]}
    assert other.get(CALLBACK, again).status_code == 403


def test_a_code_of_another_log_in_fails_by_pkce(provider: OpenIdProvider) -> None:
    stolen = provider.authorize(begun(Client()))
    client = Client()
    own = provider.authorize(begun(client))
    answer = client.get(CALLBACK, own | {"code": stolen["code"]})
    assert answer.status_code == 403 and who(client) is None


def test_a_log_in_that_began_long_ago_is_over(
    provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()
    brought = provider.authorize(begun(client))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 601)
    assert client.get(CALLBACK, brought).status_code == 400


def test_a_stranger_leaves_nothing_here_by_beginning(provider: OpenIdProvider) -> None:
    client = Client()
    addresses = [begun(client, next="/" + "x" * 5_000) for _ in range(20)]
    assert not Session.objects.exists() and not AuditEntry.objects.exists()
    cookie = client.cookies["single_sign_on"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax" and len(cookie.value) < 4_000
    assert cookie["path"] == BEGIN and cookie["max-age"] == 600
    assert client.get(CALLBACK, provider.authorize(addresses[0])).status_code == 400
    assert client.get(CALLBACK, provider.authorize(addresses[-1])).status_code == 302


def test_log_ins_of_two_windows_both_end_well(provider: OpenIdProvider) -> None:
    client = Client()
    first, second = (begun(client, next=f"/groups/?q={n}") for n in "12")
    for address, n in ((first, 1), (second, 2)):
        answer = client.get(CALLBACK, provider.authorize(address))
        assert answer["Location"] == f"/groups/?q={n}"


@pytest.mark.parametrize("spoiled", ["", "x", "a:b:c", "x" * 10_000])
def test_a_cookie_that_is_not_ours_has_begun_nothing(
    provider: OpenIdProvider, spoiled: str
) -> None:
    client = Client()
    brought = provider.authorize(begun(client))
    client.cookies["single_sign_on"] = spoiled
    assert client.get(CALLBACK, brought).status_code == 400


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("access_denied", "refused or cancelled at Harbour"),
        ("<b>\u202e", "answered with the error &#x27;&lt;b&gt;\N{REPLACEMENT CHARACTER}&#x27;"),
    ],
)
def test_what_the_provider_refused_is_said(provider: OpenIdProvider, error: str, said: str) -> None:
    client = Client()
    state = provider.authorize(begun(client))["state"]
    answer = client.get(CALLBACK, {"state": state, "error": error})
    assert answer.status_code == 403
    assert said in answer.content.decode()


def test_forged_log_ins_lock_an_address_out_and_no_other(provider: OpenIdProvider) -> None:
    guest, other = Client(REMOTE_ADDR="10.0.0.1"), Client(REMOTE_ADDR="10.0.0.2")
    provider.claims["nonce"] = "wrong"
    for _ in range(10):
        log_in(provider, guest)
    provider.claims.clear()
    assert guest.post(BEGIN).status_code == 429
    assert last("lockout").address == "10.0.0.1"
    log_in(provider, other)
    assert who(other) is not None
    assert "code=" not in str(list(AccessAttempt.objects.values_list("get_data"))).replace(
        "code=****", ""
    )
