"""The matrix: what each role may, which grant counts, and that actions and lists ask it."""

import getpass
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.db import IntegrityError

from assignment.errors import InvalidInput
from assignment.scripts.dead_letters import LetterId
from assignment.types import Offset
from dashboard.actions import groups, offsets, repair
from dashboard.actions.roles import (
    EVERYTHING,
    LOOKING,
    MATRIX,
    OF_NO_GROUP,
    Action,
    Denied,
    Effect,
    Grant,
    NeedsApproval,
    Rights,
    Role,
)
from dashboard.models import (
    AgentToken,
    AuditEntry,
    AuditSource,
    Group,
    Occurrence,
    Plan,
    Rebalance,
    ScaleDown,
)
from dashboard.pages.views import base
from dashboard.records import audit, rights
from dashboard.records.audit import By
from dashboard.records.grants import RoleGrant
from tests.dashboard.agents import make_group
from tests.dashboard.people import granted, logged_in
from tests.dashboard.scaling import Scene

CHANGES = set(Action) - LOOKING
EARLIEST = offsets.Wanted(offsets.To.EARLIEST)


def of(*said: str) -> Rights:
    """`allow operator team-*`"""
    words = [text.split() for text in said]
    return Rights(
        tuple(Grant(role=Role(role), pattern=p, effect=Effect(e)) for e, role, p in words)
    )


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


# --- in the database ------------------------------------------------------------------------------


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


# --- what is done asks it -------------------------------------------------------------------------


def asked_of_a_group(group: Group, by: By) -> dict[str, tuple[Action, Any]]:
    """Each thing that is done to a group: the action that it is, and how it is asked for."""
    token = AgentToken.objects.create(group=group, name="t", digest="d")
    row = ScaleDown(group=group, pk=1, members={}, live=1)
    noted = Occurrence(group=group, pk=1, rule="conflict")
    plan = Plan(group=group, proposed_by="ann", kind="rebalance")
    from dashboard.actions import (
        adoption,
        attention,
        coordination,
        dead_letters,
        drafting,
        pausing,
        plans,
        scale_down,
    )
    from dashboard.actions.coordination import Coordination

    client = Coordination.CLIENT
    return {
        "create_group": (
            Action.MAKE_GROUP,
            lambda: groups.create_group("new", by, stream="s", partitions=1),
        ),
        "adopt": (Action.MAKE_GROUP, lambda: adoption.adopt("new", by)),
        "settings": (Action.CHANGE_SETTINGS, lambda: groups.change_settings(group, {}, by)),
        "switch": (Action.CHANGE_SETTINGS, lambda: coordination.switch(group, client, by)),
        "rebalance": (
            Action.REBALANCE,
            lambda: plans.run_now(group, drafting.rebalance(group, "sticky", None), by),
        ),
        "approve": (Action.APPROVE, lambda: plans.approve(plan, by, digest="")),
        "skip": (Action.SKIP_EVENT, lambda: groups.skip_event(group, 0, "1-1", by)),
        "offset": (Action.SET_OFFSETS, lambda: offsets.set_offset(group, 0, EARLIEST, "", by)),
        "discard": (
            Action.DISCARD_LETTERS,
            lambda: dead_letters.discard(group, [LetterId(0, Offset(1, 1))], by),
        ),
        "discard_found": (
            Action.DISCARD_LETTERS,
            lambda: dead_letters.discard_found(group, dead_letters.Which(), by),
        ),
        "replay": (
            Action.REPLAY_LETTERS,
            lambda: dead_letters.replay(group, [LetterId(0, Offset(1, 1))], by),
        ),
        "replay_found": (
            Action.REPLAY_LETTERS,
            lambda: dead_letters.replay_found(group, dead_letters.Which(), by),
        ),
        "pause": (Action.PAUSE, lambda: pausing.pause(group, by)),
        "resume": (Action.PAUSE, lambda: pausing.resume(group, by, [0])),
        "acknowledge": (Action.ACKNOWLEDGE, lambda: attention.acknowledge(noted, by, 1)),
        "limits": (Action.CHANGE_SETTINGS, lambda: attention.change_limits(group, {}, by)),
        "token": (Action.MANAGE_TOKENS, lambda: groups.create_token(group, by)),
        "revoke": (Action.MANAGE_TOKENS, lambda: groups.revoke_token(token, by)),
        "rotate": (Action.MANAGE_TOKENS, lambda: groups.rotate_token(token, by)),
        "repair": (Action.REPAIR, lambda: repair.mend(group, by)),
        "start": (Action.SCALE_DOWN, lambda: scale_down.start(group, by, members=["a"])),
        "extend": (Action.SCALE_DOWN, lambda: scale_down.extend(row, 1, by)),
        "force": (Action.SCALE_DOWN, lambda: scale_down.force(row, "a", by)),
        "abort": (Action.SCALE_DOWN, lambda: scale_down.abort(row, by)),
    }


@pytest.mark.parametrize("effect", ["none", "stage", "deny"])
def test_who_may_not_is_refused_before_anything_is_done(group: Group, effect: str) -> None:
    held = {
        "none": Rights(),
        "stage": of("stage admin *"),
        "deny": of("allow admin *", "deny admin *"),
    }[effect]
    by = By("bob", AuditSource.COMMAND, "why", rights=held)
    before = set(AuditEntry.objects.values_list("pk", flat=True))
    result = "denied: to {} in group {!r} needs approval" if effect == "stage" else "denied: to {}"
    for name, (action, ask) in asked_of_a_group(group, by).items():
        audit.floods.forget()
        with pytest.raises(NeedsApproval if effect == "stage" else Denied, match=action.value):
            ask()
        entry = AuditEntry.objects.exclude(pk__in=before).get()
        assert (entry.actor, entry.action, entry.reason) == ("bob", action.value, "why"), name
        target = "new" if action is Action.MAKE_GROUP else group.name
        assert entry.object == entry.group == target, name
        assert entry.result.startswith(result.format(action.value, target)), name
        before.add(entry.pk)
    assert set(Group.objects.all()) == {group} and AgentToken.objects.count() == 1


def test_every_action_of_a_group_is_asked_for(group: Group) -> None:
    asked = {action for action, _ in asked_of_a_group(group, By("x", "page")).values()}
    assert asked == set(MATRIX) - OF_NO_GROUP - LOOKING


# --- commands -------------------------------------------------------------------------------------


@pytest.fixture
def bob(db: None) -> User:
    return User.objects.create(username="bob")


COMMANDS = {
    "scale_down": (["{}", "--members", "S1", "--timeout-ms", "none"], Action.SCALE_DOWN, 2),
    "coordination": (["{}", "client", "--reason", "why"], Action.CHANGE_SETTINGS, 3),
    "pause": (["{}", "--reason", "why"], Action.PAUSE, 3),
    "resume": (["{}", "--partition", "0", "--reason", "why"], Action.PAUSE, 3),
    "create_token": (["{}"], Action.MANAGE_TOKENS, 1),
    "adopt_group": (["{}"], Action.MAKE_GROUP, 1),
    "create_group": (["new", "--stream", "s", "--partitions", "1"], Action.MAKE_GROUP, 1),
    "create_producer_token": (["{}"], Action.MANAGE_PRODUCERS, 1),
    "repair": (["{}", "--apply"], Action.REPAIR, 3),
}


def test_each_command_that_acts_for_a_user_is_tried_as_one() -> None:
    known = get_commands()
    ours = [name for name, app in known.items() if app == "dashboard"]
    options = {name: load_command_class("dashboard", name) for name in ours}
    as_one = {
        name
        for name, command in options.items()
        if "--as" in command.create_parser("manage.py", name)._option_string_actions
    }
    assert as_one == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_as_a_user_has_that_users_rights(scene: Scene, bob: User, command: str) -> None:
    arguments, action, code = COMMANDS[command]
    words = [word.format(scene.group.name) for word in arguments]
    with pytest.raises(CommandError, match=f"to {action.value} takes the role") as refused:
        call_command(command, *words, "--as", "bob")
    assert refused.value.returncode == code
    entry = AuditEntry.objects.filter(result__startswith="denied").get()
    assert (entry.actor, entry.action, entry.source) == ("bob", action.value, "command")
    with pytest.raises(CommandError, match="--as 'nobody': there is no such user"):
        call_command(command, *words, "--as", "nobody")


def test_a_command_as_an_operator_is_done_in_that_name(scene: Scene, bob: User) -> None:
    granted(bob, "operator", scene.group.name)
    call_command("scale_down", scene.group.name, "--members", "S1", "--as", "bob")
    assert ScaleDown.objects.get().actor == "bob"


def test_a_command_without_a_user_may_everything(scene: Scene) -> None:
    call_command("scale_down", scene.group.name, "--members", "S1")
    entry = AuditEntry.objects.get(action="scale down")
    assert (entry.actor, entry.source) == (getpass.getuser(), "command")


def test_who_was_deactivated_does_nothing_by_command_either(scene: Scene, bob: User) -> None:
    granted(bob, "admin")
    User.objects.update(is_active=False)
    with pytest.raises(CommandError, match="no such user who may log in"):
        call_command("create_token", scene.group.name, "--as", "bob")


def test_as_a_user_takes_the_database(scene: Scene, bob: User) -> None:
    words = ["coordination", scene.group.name, "client", "--reason", "why", "--as", "bob"]
    with pytest.raises(CommandError, match="--as needs the database"):
        call_command(*words, "--redis-url", "redis://127.0.0.1:1/0")


def test_an_operators_scale_down_does_not_change_settings(scene: Scene, bob: User) -> None:
    granted(bob, "operator")
    by = By("bob", AuditSource.PAGE, rights=rights.of_user(bob))
    from dashboard.actions import scale_down

    with pytest.raises(Denied, match="to change settings"):
        scale_down.start(scene.group, by, members=["S1"], eager=False)
    assert scale_down.start(scene.group, by, members=["S1"], eager=True).actor == "bob"


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


def test_pages_say_who_asks_in_one_place() -> None:
    """`By` without rights is the system itself: no page may make one."""
    pages = Path(base.__file__).parents[1]
    files = [p for room in (pages, pages.parent / "push") for p in room.rglob("*.py")]
    assert [p.name for p in files if re.search(r"\bBy\(", p.read_text())] == ["base.py"]
