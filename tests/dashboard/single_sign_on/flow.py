"""A browser that logs in by the provider, and what came of it."""

import html
import re
from typing import Any

import jwt
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from dashboard.models import AuditEntry
from dashboard.single_sign_on.configuration import Configuration, roles_of
from tests.fakes.openid import CLIENT_ID, KEY, SECRET, OpenIdProvider

BEGIN, CALLBACK = "/login/single-sign-on/", "/login/single-sign-on/callback/"
ROLES = """{"ops": ["operator in team-*", "auditor"], "bosses": "admin", "guests": "viewer"}"""


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


def signed_by_an_unknown_key(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, KEY, algorithm="RS256", headers={"kid": "k2"})
