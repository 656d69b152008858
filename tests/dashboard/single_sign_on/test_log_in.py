"""Log in by an OpenID provider: the whole flow against a small one of our own."""

import re
from datetime import timedelta
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from dashboard.models import AuditEntry
from dashboard.records import chain
from dashboard.records.grants import RoleGrant
from dashboard.single_sign_on import people
from dashboard.single_sign_on.configuration import roles_of
from tests.dashboard.people import granted, logged_in
from tests.dashboard.single_sign_on.flow import (
    BEGIN,
    CALLBACK,
    configuration,
    grants_of,
    last,
    log_in,
    who,
)
from tests.fakes.openid import SECRET, OpenIdProvider

pytestmark = pytest.mark.django_db


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


def test_a_first_log_in_from_two_windows_makes_one_user(
    provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(provider, Client())
    monkeypatch.setattr(people, "user_of", lambda person: None)  # as both of them look first
    answer = log_in(provider, Client())
    assert answer.status_code == 403
    assert "by another window at this moment" in answer.content.decode()
    assert User.objects.count() == SocialAccount.objects.count() == 1
    assert chain.verify().ok


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
