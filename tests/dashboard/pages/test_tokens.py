"""/groups/<name>/tokens/: create, shown once, rotate, revoke."""

import re

import pytest
from django.test import Client

from dashboard.agents import tokens
from dashboard.models import AgentToken, AuditEntry, Group


def made(page: str) -> str:
    found = re.search(r'<pre class="wrap" id="token">([^<]+)</pre>', page)
    assert found
    return found[1]


@pytest.fixture
def address(group: Group) -> str:
    return f"/groups/{group.name}/tokens/"


def test_a_token_is_shown_once_with_the_command_to_run(
    visitor: Client, group: Group, address: str
) -> None:
    answer = visitor.post(address, {"do": "create", "name": "night", "days": "7"})
    text = made(answer.content.decode())
    token = AgentToken.objects.get()
    assert token.digest == tokens.digest_of(text)
    assert token.expires_at is not None
    assert answer["Cache-Control"] == "no-store"
    page = answer.content.decode()
    assert f"evenkeel-agent --group {group.name}" in page
    assert "http://testserver" in page
    assert text not in visitor.get(address).content.decode()
    assert text not in str(list(AuditEntry.objects.values()))


def test_rotating_gives_another_and_ends_the_old(
    visitor: Client, group: Group, address: str
) -> None:
    first = made(visitor.post(address, {"do": "create", "name": "night"}).content.decode())
    old = AgentToken.objects.get()
    second = made(visitor.post(address, {"do": "rotate", "token": old.pk}).content.decode())
    assert first != second
    old.refresh_from_db()
    assert old.revoked_at is not None
    again = visitor.post(address, {"do": "rotate", "token": old.pk}, follow=True)
    assert "is revoked: create a new one" in again.content.decode()


def test_revoking(visitor: Client, group: Group, address: str) -> None:
    visitor.post(address, {"do": "create", "name": "night"})
    token = AgentToken.objects.get()
    assert visitor.post(address, {"do": "revoke", "token": token.pk}).status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert "revoked" in visitor.get(address).content.decode()


@pytest.mark.parametrize("values", [{"do": "create", "name": ""}, {"do": "create", "days": "0"}])
def test_what_is_wrong_is_named(visitor: Client, address: str, values: dict[str, str]) -> None:
    answer = visitor.post(address, values)
    assert answer.status_code == 200
    assert b'class="errors"' in answer.content
    assert not AgentToken.objects.exists()


@pytest.mark.parametrize("key", ["999999", "x", ""])
def test_a_token_that_is_not_there(visitor: Client, address: str, key: str) -> None:
    assert visitor.post(address, {"do": "revoke", "token": key}).status_code == 404
