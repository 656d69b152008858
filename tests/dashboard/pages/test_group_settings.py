"""Each setting, as it is declared, comes through page, API, command, audit and Redis to the agents.

No setting is named here: what is declared is walked.
"""

import json
from dataclasses import dataclass, replace
from html import escape
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.forms import BooleanField
from django.test import Client

from assignment.errors import InvalidInput
from assignment.setting import (
    AGENTS,
    Count,
    Duration,
    Flag,
    Names,
    Parameters,
    Size,
    declared,
)
from assignment.settings import DEFAULTS, SETTINGS, GroupSettings
from dashboard.actions import groups
from dashboard.api.v1.forms import Settings
from dashboard.live import groups as live_groups
from dashboard.models import AuditEntry, Group
from dashboard.pages.forms import SettingsForm
from dashboard.pages.setting_fields import field_of
from dashboard.records.audit import By
from tests.dashboard.api_v1.program import Program, problem, read
from tests.other_settings import others_than

TOGETHER = [name for name, setting in SETTINGS.items() if setting.is_changed_with_others]


def typed(form: SettingsForm) -> dict[str, Any]:
    """The form as it shows the values, sent as a browser does."""
    shown = {field.name: field.value() for field in form if field.name != "reason"}
    boxes = [name for name, field in form.fields.items() if isinstance(field, BooleanField)]
    return {n: v for n, v in shown.items() if v is not None and (v or n not in boxes)}


def told(group: Group, wanted: dict[str, Any]) -> dict[str, Any]:
    """The database's values of these; the agents are told the same."""
    group.refresh_from_db()
    settings, _ = live_groups.stored_settings(group.name)
    assert settings == group.values
    return {name: group.settings[name] for name in wanted}


def test_each_setting_is_changed_on_the_page_as_the_page_shows_it(
    visitor: Client, group: Group
) -> None:
    address, before = f"/groups/{group.name}/settings/", group.values
    wanted = others_than(before)
    assert all(wanted[n] != before.values()[n] for n in wanted if not is_parameters(n))
    shown = SettingsForm(None, settings=GroupSettings.of(before.values() | wanted))
    answer = visitor.post(address, typed(shown))
    assert answer.status_code == 302, answer.content.decode()
    assert told(group, wanted) == wanted
    entry = AuditEntry.objects.get(action="change settings")
    assert entry.after == {n: v for n, v in wanted.items() if v != before.values()[n]}
    page = visitor.get(address).content.decode()
    for name in TOGETHER:
        assert f'name="{name}"' in page
        assert escape(SETTINGS[name].label) in page
        assert escape(SETTINGS[name].help) in page or is_strategys(name)
    assert set(entry.after) <= set(AuditEntry.objects.latest("seq").after)


def is_parameters(name: str) -> bool:
    return isinstance(SETTINGS[name], Parameters)


def is_strategys(name: str) -> bool:
    """Those that a stateful group does not use say that instead."""
    return name in ("strategy", "strategy_parameters")


def test_each_setting_is_changed_by_the_api_and_described_in_its_schema(
    user: User, visitor: Client, group: Group
) -> None:
    program, wanted = Program.of(user), others_than(group.values)
    path = f"groups/{group.name}/settings"
    assert read(program.ask("PATCH", path, {"settings": wanted}))["settings"] == {
        **group.settings,
        **wanted,
    }
    assert told(group, wanted) == wanted
    schema = Settings.model_json_schema()["properties"]
    assert list(schema) == TOGETHER
    for name, setting in SETTINGS.items():
        if name in TOGETHER:
            said = schema[name]
            assert (said["title"], said["description"]) == (setting.label, setting.help)
            assert said["default"] == DEFAULTS[name]
        if isinstance(setting, Count) and name in TOGETHER:
            too_many = {"settings": {name: setting.most + 1}}
            assert name in problem(program.ask("PATCH", path, too_many), 422)


def test_each_setting_is_given_to_the_command(store: object, group_name: str, db: None) -> None:
    plain = GroupSettings(stream=group_name, partitions=4)
    wanted = others_than(plain)
    flags = [flag_of(name, value) for name, value in wanted.items()]
    call_command("create_group", group_name, f"--stream={group_name}", "--partitions=4", *flags)
    assert told(Group.objects.get(), wanted) == wanted


def flag_of(name: str, value: Any) -> str:
    word = name.replace("_", "-")
    match SETTINGS[name]:
        case Flag():
            return f"--{word}" if value else f"--no-{word}"
        case Names():
            return f"--{word}={','.join(value)}"
    return f"--{word}={value if isinstance(value, str) else json.dumps(value)}"


def test_what_is_said_once_is_changed_nowhere(group: Group) -> None:
    for name, setting in SETTINGS.items():
        if setting.once:
            other: Any = "other" if isinstance(group.settings[name], str) else 7
            with pytest.raises(InvalidInput, match=f"{name} of a group cannot be changed"):
                groups.change_settings(group, {name: other}, By("ann", "page"))


def test_what_an_action_of_its_own_sets_is_not_changed_with_the_settings(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(name for name in TOGETHER if isinstance(SETTINGS[name], Flag))
    monkeypatch.setitem(SETTINGS, name, replace(SETTINGS[name], by_action=True))
    change = others_than(group.values) | {name: not group.settings[name]}
    with pytest.raises(InvalidInput, match=f"{name} of a group is not changed with its settings"):
        groups.change_settings(group, change, By("ann", "page"))
    assert name in groups.store_settings(group, change, By("ann", "page")).settings


# --- kinds that a setting may be of ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Imagined:
    hidden: Annotated[tuple[str, ...], Names("Hidden", "Fields.", AGENTS)] = ()
    kept_bytes: Annotated[int, Size("Kept", "Bytes.", AGENTS, most=2**40)] = 2**20
    kept_seconds: Annotated[int, Duration("Kept", "Time.", AGENTS, unit_ms=1_000, most=86_400)] = 60


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("hidden", ["a"], "is no list of at most"),
        ("hidden", ("",), "'' is no name"),
        ("hidden", ("a", "a"), "has a name twice"),
        ("kept_bytes", -1, "kept_bytes -1 is not a whole number within 0"),
        ("kept_seconds", 86_401, "kept_seconds 86401 is not a whole number within 0 and 86400"),
    ],
)
def test_what_does_not_fit_its_kind_is_named(name: str, value: Any, why: str) -> None:
    setting = declared(Imagined)[name]
    with pytest.raises(InvalidInput, match=why):
        setting.check(name, value)


@pytest.mark.parametrize(
    ("name", "text", "value", "shown"),
    [
        ("hidden", "card, cvc\nname", ("card", "cvc", "name"), "card, cvc, name"),
        ("hidden", "", (), ""),
        ("kept_bytes", "1.5 GiB", 1_610_612_736, "1536 MiB"),
        ("kept_bytes", "1000", 1_000, "1000 B"),
        ("kept_seconds", "90", 90, "1 min 30 s"),
        ("kept_seconds", "1 h", 3_600, "1 h"),
    ],
)
def test_what_people_type_is_shown_as_they_would_say_it(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: Any, shown: str
) -> None:
    for known, setting in declared(Imagined).items():
        monkeypatch.setitem(SETTINGS, known, setting)
    field = field_of(name)
    assert field.clean(text) == value
    assert field.prepare_value(value) == shown
    assert field.clean(shown) == value


def test_a_field_that_is_not_declared_is_an_error() -> None:
    @dataclass
    class Bare:
        number: Annotated[int, "no setting"] = 0

    with pytest.raises(TypeError, match=r"Bare\.number is not declared"):
        declared(Bare)
