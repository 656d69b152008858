"""/api-tokens/: one's own tokens for the API; created, shown once, revoked."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from assignment.errors import InvalidInput
from dashboard.actions import api_tokens
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action, Denied, Rights
from dashboard.agents.issued import digest_of
from dashboard.models import AuditEntry, AuditSource, PersonToken
from dashboard.records.audit import By
from tests.dashboard.people import logged_in

ADDRESS = "/api-tokens/"


def create(client: Client, **values: object) -> str:
    """Its text."""
    sent = {"do": "create", "name": "ci", "days": "7", **values}
    answer = client.post(ADDRESS, sent)
    assert answer["Cache-Control"] == "no-store"
    found = re.search(r'<pre class="wrap" id="token">([^<]+)</pre>', answer.content.decode())
    assert found, answer.content
    return found[1]


def test_a_token_is_shown_once_and_opens_the_api(viewer: Client) -> None:
    text = create(viewer, scopes=["rebalance"])
    token = PersonToken.objects.get()
    assert (token.digest, token.scopes) == (digest_of(text), ["rebalance", "see"])
    assert token.expires_at is not None
    assert text not in viewer.get(ADDRESS).content.decode()
    entry = AuditEntry.objects.get(action="create API token")
    assert (entry.actor, entry.object, entry.source) == ("bob", "API token bob/ci", "page")
    assert text not in str(list(AuditEntry.objects.values()))
    answer = Client().get("/api/v1/groups", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 200


def test_revoking_ends_it_at_once(viewer: Client) -> None:
    text, token = create(viewer), PersonToken.objects.get()
    assert viewer.post(ADDRESS, {"do": "revoke", "token": token.pk}).status_code == 302
    answer = Client().get("/api/v1/groups", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 401
    assert AuditEntry.objects.filter(action="revoke API token", actor="bob").exists()
    assert "revoked" in viewer.get(ADDRESS).content.decode()


def test_an_admin_sees_and_ends_the_tokens_of_others(viewer: Client, visitor: Client) -> None:
    text, token = create(viewer, name="of-bob"), PersonToken.objects.get()
    address = f"/users/{token.user.pk}/"
    sent = {"do": "revoke_token", "token": token.pk}
    assert "of-bob" in visitor.get(address).content.decode()
    assert viewer.post(address, sent).status_code == 403
    other = User.objects.create(username="carl")
    assert visitor.post(f"/users/{other.pk}/", sent).status_code == 404
    assert visitor.post(address, sent).status_code == 302
    answer = Client().get("/api/v1/groups", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 401
    entry = AuditEntry.objects.get(action="revoke API token")
    assert (entry.actor, entry.object) == ("ann", "API token bob/of-bob")


def test_nobody_sees_or_ends_the_tokens_of_others(viewer: Client, visitor: Client) -> None:
    create(viewer, name="of-bob")
    token = PersonToken.objects.get()
    assert "of-bob" not in visitor.get(ADDRESS).content.decode()
    assert visitor.post(ADDRESS, {"do": "revoke", "token": token.pk}).status_code == 404
    carl = By("carl", AuditSource.PAGE, rights=Rights())
    with pytest.raises(Denied, match="to manage users"):
        api_tokens.revoke(token, carl)
    until = timezone.now() + timedelta(days=1)
    with pytest.raises(Refused, match="somebody else"):
        api_tokens.create(token.user, carl, name="x", scopes=[Action.SEE], expires_at=until)
    assert PersonToken.objects.get().revoked_at is None


@pytest.mark.parametrize(
    "values",
    [{"name": ""}, {"days": ""}, {"days": "367"}, {"days": "0"}, {"scopes": ["everything"]}],
)
def test_what_is_wrong_is_named(viewer: Client, values: dict[str, object]) -> None:
    sent = {"do": "create", "name": "ci", "days": "7", **values}
    answer = viewer.post(ADDRESS, sent)
    assert b'class="errors"' in answer.content
    assert not PersonToken.objects.exists()


def test_bounds_of_the_action(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    bob = User.objects.create(username="bob")
    by, now = By("bob", AuditSource.PAGE), timezone.now()
    with pytest.raises(InvalidInput, match="more than 366 days away"):
        late = now + timedelta(days=400)
        api_tokens.create(bob, by, name="x", scopes=[], expires_at=late)
    monkeypatch.setattr(api_tokens, "VALID_MAX", 1)
    soon = now + timedelta(days=1)
    api_tokens.create(bob, by, name="x", scopes=[], expires_at=soon)
    with pytest.raises(Refused, match="1 valid tokens already"):
        api_tokens.create(bob, by, name="y", scopes=[], expires_at=soon)


@pytest.mark.parametrize("key", ["999999", "x", ""])
def test_a_token_that_is_not_there(viewer: Client, key: str) -> None:
    assert viewer.post(ADDRESS, {"do": "revoke", "token": key}).status_code == 404


def test_the_page_is_found_from_ones_password(db: None) -> None:
    page = logged_in(User.objects.create(username="bob")).get("/password/")
    assert f'href="{ADDRESS}"' in page.content.decode()
