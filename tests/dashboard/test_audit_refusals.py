"""What was refused is on record: every action says so, whatever it acts on."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from assignment.errors import EvenkeelError, InvalidInput
from dashboard.actions import groups, producers, repair, users
from dashboard.actions.roles import Effect, Grant, Role
from dashboard.models import AuditEntry, Group
from dashboard.records import chain
from tests.dashboard.chained import ANN

FOLDER = Path(users.__file__).parent
pytestmark = pytest.mark.django_db


def calls(node: ast.AST) -> set[str]:
    return {ast.unparse(found.func) for found in ast.walk(node) if isinstance(found, ast.Call)}


# Whoever calls one of these asks for a right.
ASKING = {"require", "require_to_ask", "plans.require_to_ask"}


def test_every_action_that_asks_for_a_right_is_attempted() -> None:
    missing = [
        f"{path.name}: {node.name}"
        for path in FOLDER.glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and ASKING & calls(node) and node.name not in ASKING
        if not any("audit.attempted" in calls(decorator) for decorator in node.decorator_list)
    ]
    assert missing == []


def refused(action: str) -> AuditEntry:
    return AuditEntry.objects.get(action=action, result__startswith="refused: ")


@pytest.mark.parametrize(
    ("action", "change"),
    [
        ("create user", lambda bob: users.make_user("bob", "an-even-keel-9", ANN)),
        ("change user", lambda bob: users.set_password(bob, "12345678", ANN)),
        ("grant role", lambda bob: users.grant(bob, Grant(role=Role.VIEWER), ANN)),
    ],
)
def test_of_users(action: str, change: Callable[[User], Any]) -> None:
    bob = User.objects.create(username="bob")
    users.grant(bob, Grant(role=Role.VIEWER), ANN)
    with pytest.raises(EvenkeelError):
        change(bob)
    assert (refused(action).actor, refused(action).object) == ("ann", "user bob")
    assert "12345678" not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("action", "change"),
    [
        ("change user", lambda ann, row: users.set_active(ann, False, ANN)),
        ("revoke role", lambda ann, row: users.revoke(row, ANN)),
    ],
)
def test_of_oneself(action: str, change: Callable[[User, Any], Any]) -> None:
    """What was changed is taken back, that it was refused stays."""
    ann = User.objects.create(username="ann")
    users.grant(ann, Grant(role=Role.ADMIN, effect=Effect.ALLOW), ANN)
    with pytest.raises(groups.Refused, match="could not manage users any more"):
        change(ann, ann.role_grants.get())
    assert refused(action).object == "user ann"
    assert chain.verify().ok


def test_of_a_group_that_is_repaired(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Group) -> None:
        raise InvalidInput("not now")

    monkeypatch.setattr(repair, "_stored", refuse)
    with pytest.raises(InvalidInput):
        repair.mend(group, ANN)
    assert (refused("repair group").group, refused("repair group").actor) == (group.name, "ann")


def test_of_producers_that_have_no_token() -> None:
    with pytest.raises(groups.Refused):
        producers.revoke_tokens("s", "producers", ANN)
    assert refused("revoke producer token").object == "s"
