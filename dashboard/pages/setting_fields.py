"""The field of a form for each setting of a group, as it is declared (assignment/settings.py)."""

from typing import Any

from django import forms

from assignment import strategies
from assignment.errors import InvalidInput
from assignment.names import NAME_MAX, valid_name
from assignment.setting import (
    NAMES_MAX,
    Choice,
    Count,
    Duration,
    Flag,
    Name,
    Names,
    Parameters,
    Setting,
    Size,
    StrategyName,
)
from assignment.settings import DEFAULTS, SETTINGS
from dashboard.pages.fields import CountField, DurationField, NamesField, SizeField


def name_field(kind: str, **said: Any) -> forms.CharField:
    def check(text: str) -> None:
        try:
            valid_name(kind, text)
        except InvalidInput as error:
            raise forms.ValidationError(str(error)) from error

    return forms.CharField(max_length=NAME_MAX, validators=[check], **said)


def field_of(name: str, **more: Any) -> forms.Field:
    """`more`: what the form at hand says otherwise. What may be left out is None, or no."""
    setting = SETTINGS[name]
    said: dict[str, Any] = {"label": setting.label, "help_text": setting.help}
    said |= {"required": not setting.may_be_none, **more}
    match setting:
        case Count():
            return _counted(setting, said)
        case Flag():
            return _flag(setting, said | {"required": False}, DEFAULTS[name])
        case Choice():
            return forms.ChoiceField(choices=[(one, one) for one in setting.options], **said)
        case StrategyName():
            return forms.ChoiceField(choices=[(one, one) for one in strategies.NAMES], **said)
    return _typed(name, setting, said)


def _counted(setting: Count, said: dict[str, Any]) -> forms.Field:
    said = {"least": setting.least, "most": setting.most} | said
    match setting:
        case Duration():
            return DurationField(unit_ms=setting.unit_ms, **said)
        case Size():
            return SizeField(**said)
    return CountField(**said)


def _flag(setting: Flag, said: dict[str, Any], default: bool) -> forms.Field:
    if not setting.on:
        return forms.BooleanField(**said)
    return forms.TypedChoiceField(
        choices=[("True", setting.on), ("False", setting.off)],
        coerce=lambda text: text == "True",
        empty_value=default,  # type: ignore[arg-type]  # of the coerced kind
        **said,
    )


def _typed(name: str, setting: Setting, said: dict[str, Any]) -> forms.Field:
    match setting:
        case Name():
            return name_field(name, **said)
        case Names():
            return NamesField(max_length=NAMES_MAX * NAME_MAX, **said | {"required": False})
        case Parameters():
            rows = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})
            return forms.CharField(widget=rows, **said | {"required": False})
    raise TypeError(f"no field is known for {type(setting).__name__} {name}")
