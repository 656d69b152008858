"""Commands that act for a user (`--as`): with that user's rights, and in that name."""

import getpass

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command, get_commands, load_command_class

from dashboard.actions.roles import Action
from dashboard.models import AuditEntry, ScaleDown
from tests.dashboard.people import granted
from tests.dashboard.scaling import Scene


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
