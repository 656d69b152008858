"""Log in by an OpenID provider: the whole flow against a small one of our own."""

import base64
import hmac
import html
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import jwt
import pytest
from allauth.socialaccount.models import SocialAccount
from axes.models import AccessAttempt
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from assignment.errors import InvalidInput
from dashboard.actions.roles import Grant
from dashboard.models import AuditEntry
from dashboard.records import chain
from dashboard.records.grants import RoleGrant
from dashboard.single_sign_on import asking
from dashboard.single_sign_on import provider as provider_module
from dashboard.single_sign_on.configuration import Configuration, roles_of
from dashboard.single_sign_on.people import KnownElsewhere
from tests.dashboard.people import granted, logged_in
from tests.fakes.openid import (
    CLIENT_ID,
    KEY,
    SECRET,
    Handler,
    OpenIdProvider,
    new_key,
    openid_provider,
    public,
)

pytestmark = pytest.mark.django_db
BEGIN, CALLBACK = "/login/single-sign-on/", "/login/single-sign-on/callback/"
ROLES = """{"ops": ["operator in team-*", "auditor"], "bosses": "admin", "guests": "viewer"}"""


@pytest.fixture
def provider(settings: Settings) -> Iterator[OpenIdProvider]:
    asking.documents.forget()
    with openid_provider() as made:
        settings.SINGLE_SIGN_ON = configuration(made.issuer)
        backend = f"{KnownElsewhere.__module__}.{KnownElsewhere.__name__}"
        settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, backend]
        yield made
    asking.documents.forget()


def configuration(issuer: str, **changed: Any) -> Configuration:
    values = {
        "issuer": issuer,
        "client_id": CLIENT_ID,
        "secret": SECRET,
        "name": "Harbour",
        "claim": "groups",
        "scopes": ("openid", "profile"),
        "development": True,
        "roles": roles_of("roles", ROLES),
        **changed,
    }
    return Configuration(**values)


def begun(client: Client, **form: str) -> str:
    """The address that the page goes on to."""
    page = client.post(BEGIN, form)
    assert page.status_code == 200, page.content.decode()
    found = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', page.content.decode())
    assert found
    return html.unescape(found[1])


def log_in(provider: OpenIdProvider, client: Client, **form: str) -> HttpResponse:
    return client.get(CALLBACK, provider.authorize(begun(client, **form)))


def who(client: Client) -> User | None:
    key = client.session.get("_auth_user_id")
    return User.objects.get(pk=key) if key else None


def grants_of(user: User, *, by_provider: bool = True) -> set[str]:
    return {str(row) for row in user.role_grants.filter(by_provider=by_provider)}


def last(action: str) -> AuditEntry:
    return AuditEntry.objects.filter(action=action).order_by("-seq")[0]


def test_a_person_of_the_provider_logs_in_and_out(provider: OpenIdProvider) -> None:
    client = Client(REMOTE_ADDR="10.0.0.1")
    assert "Log in with Harbour" in client.get("/login/?next=/status/").content.decode()
    answer = log_in(provider, client, next="/status/")
    assert (answer.status_code, answer["Location"]) == (302, "/status/")
    user = who(client)
    assert user is not None and user.username == "olga"
    assert not user.has_usable_password() and not user.is_staff and not user.is_superuser
    assert grants_of(user) == {"allow operator in team-*", "allow auditor in *"}
    account = SocialAccount.objects.get(user=user)
    assert (account.provider, account.uid, account.extra_data) == (provider.issuer, "s-1", {})
    entry = last("log in")
    assert (entry.actor, entry.address, entry.result) == ("olga", "10.0.0.1", "done")
    assert entry.reason == f"by single sign-on, {provider.issuer}, subject s-1"
    made = last("create user")
    assert (made.actor, made.object) == ("evenkeel", "user olga") and "subject s-1" in made.reason
    assert {e.actor for e in AuditEntry.objects.filter(action="grant role")} == {"evenkeel"}
    assert client.get("/audit/").status_code == 200
    assert client.post("/logout/").status_code == 302
    assert last("log out").actor == "olga"
    assert client.get("/audit/").status_code == 302
    assert chain.verify().ok
    assert SECRET not in str(list(AuditEntry.objects.values()))


def test_it_is_off_unless_configured(settings: Settings) -> None:
    assert settings.SINGLE_SIGN_ON is None
    assert "Log in with" not in Client().get("/login/").content.decode()
    assert Client().post(BEGIN).status_code == 404
    assert Client().get(CALLBACK).status_code == 404


def test_it_begins_by_a_form_with_its_csrf_token(provider: OpenIdProvider) -> None:
    assert Client().get(BEGIN).status_code == 405
    assert Client(enforce_csrf_checks=True).post(BEGIN).status_code == 403
    assert Client().post(CALLBACK).status_code == 405
    assert provider.asked == []


def test_what_the_provider_is_asked_cannot_be_changed_by_a_link(provider: OpenIdProvider) -> None:
    odd = "?auth_params=redirect_uri%3Dhttps://evil.example&scope=admin&process=redirect&next=//x.y"
    page = Client().post(BEGIN + odd).content.decode()
    assert "evil.example" not in page and "admin" not in page and "x.y" not in page
    assert "redirect_uri=http%3A%2F%2Ftestserver%2Flogin%2Fsingle-sign-on%2Fcallback%2F" in page


@pytest.mark.parametrize(
    "following",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", ""],
)
def test_nobody_is_sent_to_another_site(provider: OpenIdProvider, following: str) -> None:
    assert log_in(provider, Client(), next=following)["Location"] == "/"


# --- who it is ------------------------------------------------------------------------------------


def test_the_same_person_is_the_same_user_whatever_else_changes(provider: OpenIdProvider) -> None:
    log_in(provider, Client())
    provider.person |= {"preferred_username": "olga-married", "email": "new@example.org"}
    client = Client()
    log_in(provider, client)
    user = who(client)
    assert user is not None and user.username == "olga"
    assert User.objects.count() == 1


@pytest.mark.parametrize("name", ["admin", "ADMIN", "ａｄｍｉｎ", "evenkeel", "Evenkeel"])
def test_a_name_that_is_taken_makes_nobody_somebody_else(
    provider: OpenIdProvider, name: str
) -> None:
    admin = User.objects.create_superuser("admin", email="admin@example.org", password="x")
    provider.person |= {"preferred_username": name, "email": "admin@example.org"}
    provider.person |= {"email_verified": True}
    client = Client()
    log_in(provider, client)
    user = who(client)
    assert user is not None and user.pk != admin.pk and not user.is_superuser
    assert re.fullmatch(r"(?i)(admin|evenkeel)-[0-9a-f]{8}", user.username)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"preferred_username": "a b\u202e<script>"}, "a-b-script"),
        ({"preferred_username": 7, "email": "o@example.org"}, "o@example.org"),
        ({"preferred_username": "\u0000 "}, "user"),
        ({"preferred_username": "x" * 400}, "x" * 100),
    ],
)
def test_a_name_is_one_of_ours(provider: OpenIdProvider, said: dict[str, Any], name: str) -> None:
    provider.person |= said
    client = Client()
    log_in(provider, client)
    user = who(client)
    assert user is not None and user.username == name


def test_the_same_subject_of_another_issuer_is_somebody_else(provider: OpenIdProvider) -> None:
    log_in(provider, Client())
    SocialAccount.objects.update(provider="https://former.example.org")
    client = Client()
    log_in(provider, client)
    user = who(client)
    assert user is not None and user.username != "olga" and User.objects.count() == 2


# --- what is not believed -------------------------------------------------------------------------


def signed_by_another(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, new_key(), algorithm="RS256", headers={"kid": "k1"})


def signed_by_an_unknown_key(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, KEY, algorithm="RS256", headers={"kid": "k2"})


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


# --- groups ---------------------------------------------------------------------------------------


def test_grants_follow_the_groups_and_leave_what_was_given_by_hand(
    provider: OpenIdProvider,
) -> None:
    client = Client()
    log_in(provider, client)
    user = who(client)
    assert user is not None
    granted(user, "approver", "team-a")
    granted(user, "admin")
    provider.person["groups"] = ["bosses", "unknown"]
    log_in(provider, Client())
    assert grants_of(user) == {"allow admin in *"}
    assert grants_of(user, by_provider=False) == {"allow approver in team-a", "allow admin in *"}
    revoked = AuditEntry.objects.filter(action="revoke role")
    assert [e.actor for e in revoked] == ["evenkeel", "evenkeel"]
    count = AuditEntry.objects.exclude(action="log in").count()
    log_in(provider, Client())
    assert AuditEntry.objects.exclude(action="log in").count() == count, "nothing changed"


def test_who_left_all_groups_is_out_with_what_was_open(provider: OpenIdProvider) -> None:
    client = Client()
    log_in(provider, client)
    user = who(client)
    assert user is not None and client.get("/groups/").status_code == 200
    provider.person["groups"] = ["another"]
    answer = log_in(provider, Client())
    assert answer.status_code == 403
    assert "none of your groups there has a role here" in answer.content.decode()
    assert not RoleGrant.objects.exists()
    assert client.get("/groups/").status_code == 302
    assert not AccessAttempt.objects.exists(), "nobody guessed anything"


@pytest.mark.parametrize("groups", [["another"], [], None, 7, [["ops"]], {"ops": 1}])
def test_who_has_no_group_that_counts_gets_no_user(provider: OpenIdProvider, groups: Any) -> None:
    provider.person["groups"] = groups
    assert log_in(provider, Client()).status_code == 403
    assert not User.objects.exists() and not SocialAccount.objects.exists()


def test_a_role_for_everyone_lets_everyone_in(provider: OpenIdProvider, settings: Settings) -> None:
    roles = roles_of("roles", '{"*": "viewer"}')
    settings.SINGLE_SIGN_ON = configuration(provider.issuer, roles=roles)
    provider.person["groups"] = []
    client = Client()
    log_in(provider, client)
    user = who(client)
    assert user is not None and grants_of(user) == {"allow viewer in *"}


def test_groups_may_come_from_userinfo_about_the_same_person(provider: OpenIdProvider) -> None:
    provider.left_out = {"groups"}
    provider.userinfo = {"sub": "s-1", "groups": "bosses", "preferred_username": "eve"}
    client = Client()
    log_in(provider, client)
    user = who(client)
    assert user is not None and user.username == "olga"
    assert grants_of(user) == {"allow admin in *"}
    provider.userinfo = {"sub": "s-2", "groups": ["ops"]}
    answer = log_in(provider, Client())
    assert answer.status_code == 403 and "of somebody else" in answer.content.decode()


@pytest.mark.parametrize("address", ["https://[", "http://example.org/", 7, "file:///etc/passwd"])
def test_userinfo_is_asked_for_where_it_may_be_alone(
    provider: OpenIdProvider, address: object
) -> None:
    provider.left_out = {"groups"}
    provider.description = {"userinfo_endpoint": address}
    answer = log_in(provider, Client())
    assert answer.status_code == 503
    assert "is not asked" in answer.content.decode()


# --- users ----------------------------------------------------------------------------------------


def test_who_is_deactivated_is_refused_with_a_sentence(provider: OpenIdProvider) -> None:
    client = Client()
    log_in(provider, client)
    User.objects.update(is_active=False)
    assert client.get("/groups/").status_code == 302
    answer = log_in(provider, Client())
    assert answer.status_code == 403
    assert "User olga is deactivated" in answer.content.decode()
    assert last("failed log in").result == (
        "failed: user olga is deactivated: ask an admin of this dashboard"
    )


def test_the_users_page_shows_who_it_is_and_keeps_the_providers_grants(
    provider: OpenIdProvider,
) -> None:
    client = Client()
    log_in(provider, client)
    user, boss = who(client), User.objects.create_superuser("boss")
    assert user is not None
    page = logged_in(boss).get(f"/users/{user.pk}/").content.decode()
    assert provider.issuer in page and "s-1" in page
    assert page.count("by groups of the provider") == 2 and "Revoke" not in page
    assert "Set the password" not in page
    row = user.role_grants.all()[0]
    answer = logged_in(boss).post(f"/users/{user.pk}/", {"do": "revoke", "grant": row.pk})
    assert "it goes when they go" in answer.content.decode()
    answer = logged_in(boss).post(
        f"/users/{user.pk}/", {"do": "password", "password": "an-even-keel-9"}
    )
    assert "has no password here" in answer.content.decode()
    user.refresh_from_db()
    assert user.role_grants.count() == 2 and not user.has_usable_password()
    assert "have no password here" in client.get("/password/").content.decode()


def test_a_session_lasts_half_a_day_and_no_longer_than_single_sign_on(
    provider: OpenIdProvider, settings: Settings
) -> None:
    client = Client()
    log_in(provider, client)
    left = Session.objects.get(pk=client.session.session_key).expire_date - timezone.now()
    assert timedelta(hours=11) < left <= timedelta(hours=12)
    assert client.get("/groups/").status_code == 200
    settings.AUTHENTICATION_BACKENDS = settings.AUTHENTICATION_BACKENDS[:-1]
    assert client.get("/groups/").status_code == 302


# --- a provider in trouble ------------------------------------------------------------------------


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


# --- what is configured ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ('{"ops": "captain"}', "group 'ops': there is no role 'captain': viewer, operator"),
        ('{"ops": "permit operator"}', "'permit operator' is not of the form"),
        ('{"ops": "operator in [x]"}', "pattern '[x]'"),
        ('{"ops": "stage viewer"}', "role viewer cannot be staged"),
        ('{"ops": 7}', "what group 'ops' gives is not of the form"),
        ('{"ops": []}', "what group 'ops' gives is not of the form"),
        ('{"ops": "viewer", "ops": "admin"}', "'ops' is there twice"),
        ("{}", "is no JSON of the form"),
        ("ops=admin", "is not JSON"),
        (json.dumps({f"g{n}": "viewer" for n in range(201)}), "more than 200 roles"),
    ],
)
def test_roles_that_cannot_be_read_are_named(roles: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)) as error:
        roles_of("EVENKEEL_SSO_ROLES", roles)
    assert said == "'ops' is there twice" or str(error.value).startswith("EVENKEEL_SSO_ROLES")


@pytest.mark.parametrize(
    "text", ["deny viewer in secret-*", "allow admin in *", "stage operator in a"]
)
def test_a_grant_is_read_as_it_is_shown(text: str) -> None:
    assert str(Grant.read(text)) == text


@pytest.mark.parametrize(
    ("issuer", "development", "is_good"),
    [
        ("https://id.example.org", False, True),
        ("https://id.example.org/realms/x/", False, True),
        ("http://id.example.org", True, False),
        ("http://127.0.0.1:8080/x", True, True),
        ("http://localhost:8080", False, False),
        ("https://", False, False),
        ("https://a@id.example.org", False, False),
        ("https://id.example.org/?x=1", False, False),
        ("https://id.example.org:port", False, False),
        ("https://" + "x" * 200, False, False),
        ("id.example.org", True, False),
    ],
)
def test_an_issuer_is_reached_by_https_or_on_this_machine(
    issuer: str, development: bool, is_good: bool
) -> None:
    if is_good:
        configuration(issuer, development=development)
    else:
        with pytest.raises(InvalidInput, match="EVENKEEL_SSO_ISSUER"):
            configuration(issuer, development=development)


def test_the_secret_is_never_shown() -> None:
    assert SECRET not in repr(configuration("https://id.example.org"))
