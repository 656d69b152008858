"""Grants in the database: how they are read, and what lists they leave of groups and entries."""

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError

from dashboard.actions.roles import EVERYTHING, Action, Rights
from dashboard.models import AuditEntry, AuditSource, Group, Rebalance
from dashboard.records import audit, rights
from dashboard.records.audit import By
from dashboard.records.grants import RoleGrant
from tests.dashboard.agents import make_group
from tests.dashboard.people import granted, logged_in, of

GRANTS = [
    *([], ["deny viewer x-*"], ["deny viewer *"], ["allow auditor x-*"], ["allow auditor **"]),
    *(["allow auditor *", "deny auditor x-*"], ["allow auditor ?-1", "deny viewer *2"]),
    *(["allow auditor *", "deny viewer x.1", "deny auditor y*"], ["stage admin x-*"]),
]


@pytest.mark.parametrize("said", GRANTS)
@pytest.mark.parametrize("action", [Action.SEE, Action.READ_AUDIT])
def test_a_list_has_what_the_matrix_lets_see(db: None, said: list[str], action: Action) -> None:
    """The regular expressions of the database decide as Python does."""
    for name in ("x-1", "x-2", "y-1", "y-2", "x.1"):
        row = Group.objects.create(name=name, stream="s", partitions=1, settings={})
        audit.record(By("ann", AuditSource.PAGE), "create group", row)
    audit.record(By("ann", AuditSource.PAGE), "make user", object="bob")
    held = of(*said)
    found = rights.narrowed_to(Group.objects.all(), held, action, "name")
    expected = [g.name for g in Group.objects.all() if held.may_look(action, g.name)]
    assert [g.name for g in found] == expected
    entries = rights.narrowed_to(AuditEntry.objects.filter(source="page"), held, action, "group")
    assert sorted(e.group for e in entries if e.group) == sorted(expected)
    assert any(e.group == "" for e in entries) == held.may_look(action, None)


def test_grants_are_read_from_the_database(db: None) -> None:
    user = User.objects.create(username="ann")
    assert rights.of_user(user) == Rights()
    granted(user, "operator", "team-*")
    assert rights.of_user(user) == of("allow operator team-*")
    assert rights.of_user(User(is_superuser=True)) == EVERYTHING
    assert not rights.of_user(User(is_superuser=True, is_active=False)).may(Action.SEE, "g")


@pytest.mark.parametrize("values", [{"pattern": "a|b"}, {"role": "king"}, {"effect": "maybe"}])
def test_a_grant_that_cannot_be_read_denies_its_person_and_nobody_else(
    group: Group, values: dict[str, str]
) -> None:
    """All sockets of a process are looked at together: one row keeps none of them open."""
    ann, bob, carl = (User.objects.create(username=name) for name in ("ann", "bob", "carl"))
    row = granted(ann, "admin")
    granted(carl, "viewer", group.name, "deny")
    RoleGrant.objects.filter(pk=row.pk).update(**values)
    assert rights.of_user(ann) == rights.NOTHING
    assert rights.watched({(u.pk, group.name) for u in (ann, bob, carl)}) == {(bob.pk, group.name)}
    boss = logged_in(User.objects.create(username="boss", is_superuser=True))
    assert boss.get("/users/").status_code == boss.get(f"/users/{ann.pk}/").status_code == 200
    boss.post(f"/users/{ann.pk}/", {"do": "revoke", "grant": row.pk})
    assert rights.of_user(ann) == Rights()


def test_the_database_keeps_who_changes_nothing_from_being_staged(db: None) -> None:
    user = User.objects.create(username="ann")
    with pytest.raises(IntegrityError):
        granted(user, "auditor", effect="stage")


def test_names_that_regular_expressions_know_are_only_names(db: None) -> None:
    assert not RoleGrant.objects.exists() and not Rebalance.objects.exists()
    held = of("deny viewer a.b-c")
    for name in ("a.b-c", "axb-c"):
        Group.objects.create(name=name, stream="s", partitions=1, settings={})
    assert [g.name for g in rights.visible(held)] == ["axb-c"]


def test_groups_are_counted_where_they_are_seen(group: Group, group_name: str) -> None:
    from dashboard.records.queries import groups as queries

    make_group(f"hidden-{group_name}")
    seen = queries.rows(0, of("deny viewer hidden-*"))
    assert [row.group for row in seen] == [group]
