"""The matrix: what each role may, and which grant counts."""

import itertools
import re

import pytest

from assignment.errors import InvalidInput
from dashboard.actions.roles import (
    LOOKING,
    OF_NO_GROUP,
    Action,
    Denied,
    Effect,
    Grant,
    NeedsApproval,
    Rights,
    Role,
)
from tests.dashboard.people import of

CHANGES = set(Action) - LOOKING


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("viewer", "see"),
        (
            "operator",
            "see, rebalance, scale down, skip an event, discard dead letters, replay dead letters,"
            " pause and resume, set committed offsets, acknowledge attention, look at events",
        ),
        ("approver", "see, approve a plan"),
        ("auditor", "see, read the audit, verify the audit, look at events"),
        ("admin", ", ".join(Action)),
    ],
)
def test_what_a_role_may(role: str, allowed: str) -> None:
    held = of(f"allow {role} *")
    assert {a for a in Action if held.may(a, "g")} == set(allowed.split(", "))


def test_without_a_grant_one_is_a_viewer_of_every_group() -> None:
    assert [a for a in Action if Rights().may(a, "g")] == [Action.SEE]


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("team-*", ("team-", "team-a", "team-a.b_c"), ("team", "my-team-a", "Team-a")),
        ("a?c", ("abc", "a-c"), ("ac", "abbc")),
        ("a.c", ("a.c",), ("abc",)),
        ("*", ("a", "team-a"), ()),
    ],
)
def test_a_pattern_fits_names(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    held = of(f"allow operator {pattern}")
    assert all(held.may(Action.REBALANCE, name) for name in fits)
    assert not any(held.may(Action.REBALANCE, name) for name in fits_not)


@pytest.mark.parametrize("pattern", ["", "a b", "a" * 101, "[a]", "*a*b*c*", "a|b", "(a"])
def test_what_is_no_pattern_is_named(pattern: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(repr(pattern))):
        Grant(role=Role.VIEWER, pattern=pattern)


ORDERED = ["allow operator *", "stage operator prod-*", "deny operator prod-db"]


@pytest.mark.parametrize("said", list(itertools.permutations(ORDERED)))
def test_deny_comes_before_stage_before_allow(said: tuple[str, ...]) -> None:
    held = of(*said)
    assert held.effect(Action.REBALANCE, "test") is Effect.ALLOW
    assert held.effect(Action.REBALANCE, "prod-web") is Effect.STAGE
    assert held.effect(Action.REBALANCE, "prod-db") is Effect.DENY
    assert held.may(Action.SEE, "prod-db")


def test_what_is_denied_by_one_role_is_not_given_by_another() -> None:
    held = of("allow admin *", "deny operator prod-*")
    assert not held.may(Action.REBALANCE, "prod-1")
    assert held.may(Action.CHANGE_SETTINGS, "prod-1")


def test_to_deny_the_viewer_denies_everything_there() -> None:
    held = of("allow admin *", "deny viewer secret-*")
    assert not any(held.may(a, "secret-1") for a in set(Action) - OF_NO_GROUP)
    assert all(held.may(a, "other") for a in set(Action) - OF_NO_GROUP)


def test_who_is_staged_looks_and_needs_approval_for_each_change() -> None:
    held = of("stage admin *")
    assert {a for a in Action if held.effect(a, "g") is Effect.STAGE} == CHANGES
    with pytest.raises(NeedsApproval, match="to rebalance in group 'g' needs approval"):
        held.check(Action.REBALANCE, "g")


@pytest.mark.parametrize("role", ["viewer", "approver", "auditor"])
def test_who_changes_nothing_is_not_staged(role: str) -> None:
    with pytest.raises(InvalidInput, match=f"role {role} cannot be staged"):
        of(f"stage {role} *")


def test_what_is_of_no_group_takes_a_grant_for_all_groups() -> None:
    held = of("allow admin team-*")
    assert not any(held.may(action, None) for action in OF_NO_GROUP)
    assert not any(held.may(action, "team-a") for action in OF_NO_GROUP)
    with pytest.raises(Denied, match="to manage users takes the role admin in all groups"):
        held.check(Action.MANAGE_USERS, "team-a")


@pytest.mark.parametrize("exception", ["deny viewer secret-*", "deny admin ?*", "deny admin **"])
def test_who_is_denied_some_groups_cannot_lift_that(exception: str) -> None:
    """By what is of no group: users and their grants, producers' tokens, evaluations."""
    held = of("allow admin *", exception)
    assert not [a for a in OF_NO_GROUP - LOOKING if held.effect(a, None) is not Effect.DENY]
    with pytest.raises(Denied, match="role admin in all groups, without exception"):
        held.check(Action.MANAGE_USERS, None)


def test_who_is_staged_in_some_groups_is_staged_in_what_is_of_none() -> None:
    held = of("allow admin *", "stage admin prod-*")
    assert {a for a in OF_NO_GROUP if held.effect(a, None) is Effect.STAGE} == OF_NO_GROUP & CHANGES
    assert held.may(Action.VERIFY_AUDIT, None)
    with pytest.raises(NeedsApproval, match="to manage users in all groups, without exception"):
        held.check(Action.MANAGE_USERS, None)


def test_a_deny_that_speaks_of_another_role_is_none_here() -> None:
    held = of("allow admin *", "deny operator prod-*")
    assert all(held.may(action, None) for action in OF_NO_GROUP)


def test_what_is_of_no_group_is_not_read_by_whom_some_groups_are_hidden_from() -> None:
    held = of("allow auditor *", "deny viewer secret-*")
    assert not held.may(Action.READ_AUDIT, None)
    assert held.may(Action.READ_AUDIT, "other")


@pytest.mark.parametrize(("given", "pattern"), [("**", "*"), ("*****", "*"), ("a**b", "a*b")])
def test_stars_in_a_row_are_one(given: str, pattern: str) -> None:
    assert Grant(role=Role.VIEWER, pattern=given) == Grant(role=Role.VIEWER, pattern=pattern)
    assert not of("deny viewer **").may(Action.SEE, None)


@pytest.mark.parametrize(
    ("said", "anywhere"),
    [
        (["allow operator a-*"], Effect.ALLOW),
        (["stage operator a-*"], Effect.STAGE),
        (["allow auditor *"], Effect.DENY),
        (["allow operator a-*", "deny operator *"], Effect.DENY),
        (["allow operator a-*", "deny operator b-*"], Effect.ALLOW),
        (["allow operator a-*", "stage operator *"], Effect.STAGE),
    ],
)
def test_what_is_possible_in_some_group(said: list[str], anywhere: Effect) -> None:
    assert of(*said).anywhere(Action.REBALANCE) is anywhere
