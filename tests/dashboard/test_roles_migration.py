"""Whoever was there before there were roles keeps one that fits what they could do."""

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from dashboard.actions.roles import Action
from dashboard.records import rights
from dashboard.records.grants import RoleGrant

BEFORE = ("dashboard", "0014_role_grants")


@pytest.mark.django_db(transaction=True)
def test_who_was_there_goes_on() -> None:
    made = {
        "chief": User.objects.create(username="chief", is_superuser=True, is_staff=True),
        "staff": User.objects.create(username="staff", is_staff=True),
        "plain": User.objects.create(username="plain"),
        "gone": User.objects.create(username="gone", is_active=False),
    }
    call_command("migrate", *BEFORE, verbosity=0)
    call_command("migrate", verbosity=0)
    rows = RoleGrant.objects.values_list("user__username", "effect", "role", "pattern", "made_by")
    assert sorted(rows) == [
        ("plain", "allow", "operator", "*", "evenkeel"),
        ("staff", "allow", "admin", "*", "evenkeel"),
    ]
    held = {name: rights.of_user(user) for name, user in made.items()}
    assert {n for n in held if held[n].may(Action.MANAGE_USERS, None)} == {"chief", "staff"}
    assert {n for n in held if held[n].may(Action.REBALANCE, "g")} == {"chief", "staff", "plain"}
    assert {n for n in held if held[n].may(Action.MANAGE_TOKENS, "g")} == {"chief", "staff"}
    call_command("migrate", verbosity=0)
    assert RoleGrant.objects.count() == 2
