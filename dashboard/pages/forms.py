"""What people may type. Bounds are those of the values themselves; errors name what was typed."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms

from assignment import strategies
from assignment.errors import InvalidInput
from assignment.settings import DEFAULTS, SETTINGS, GroupSettings
from assignment.types import Coordination
from dashboard.pages import parameters
from dashboard.pages.amounts import MINUTE_MS
from dashboard.pages.setting_fields import field_of, name_field

Fields = list[forms.BoundField]
REASON_MAX = 500
SHOWN_MAX = 100  # characters of what was typed, in an error
UNKNOWN_SHOWN = 5
UNNAMED = (forms.PasswordInput, forms.Textarea)
CSRF = "csrfmiddlewaretoken"


class Form(forms.Form):
    """Whose errors name what was typed, but for passwords and for texts, which name what of it."""

    def add_error(self, field: str | None, error: Any) -> None:
        typed = self._typed(field)
        if typed:
            said = forms.ValidationError(error).messages
            error = forms.ValidationError([_naming(typed, message) for message in said])
        super().add_error(field, error)

    def _typed(self, name: str | None) -> str:
        if name is None or isinstance(self.fields[name].widget, UNNAMED):
            return ""
        return str(self.data.get(self.add_prefix(name)) or "")


class NoForm(Form):
    """Of a button: no field of its own, and a place for what was refused."""


def _naming(typed: str, message: str) -> str:
    return message if typed in message else f"{typed[:SHOWN_MAX]!r}: {message}"


def refuse_unknown(form: forms.Form, sent: Iterable[str], also: Iterable[str] = ()) -> None:
    """An error for each field that the form does not have."""
    for name in sorted(set(sent) - {*form.fields, *also, CSRF})[:UNKNOWN_SHOWN]:
        form.add_error(None, f"there is no field {name[:SHOWN_MAX]!r}")


STRATEGY_FIELDS = ("strategy", "strategy_parameters")


def _reason(help_text: str = "", **more: Any) -> forms.CharField:
    return forms.CharField(max_length=REASON_MAX, help_text=help_text, **more)


class StrategyForm(Form):
    """A strategy with its parameters, checked together."""

    strategy_help = strategies.KINDS
    strategy = field_of("strategy", help_text="")
    strategy_parameters = field_of("strategy_parameters")

    def clean_strategy_parameters(self) -> dict[str, Any]:
        """Named beside the field: what is no JSON, and what the chosen strategy does not take."""
        try:
            found = parameters.parse(self.cleaned_data["strategy_parameters"])
            if "strategy" in self.cleaned_data:
                strategies.get(self.cleaned_data["strategy"], self.meant(found))
        except InvalidInput as error:
            raise forms.ValidationError(str(error)) from error
        return found

    def meant(self, found: dict[str, Any]) -> Mapping[str, Any]:
        """The parameters that will be used for those typed."""
        return found


class GroupForm(StrategyForm):
    """The settings of these names, a strategy among them, each as it is declared."""

    def __init__(self, data: Any, names: Iterable[str], **more: Any) -> None:
        super().__init__(data, **more)
        self.fields.update({name: field_of(name) for name in names})

    @property
    def state_fields(self) -> Fields:
        """What counts in a stateful group only (learners.md)."""
        return [field for field in self if field.name in OF_STATE]

    @property
    def general_fields(self) -> Fields:
        return [field for field in self if field.name not in {*OF_STATE, "reason"}]


TOGETHER = [name for name, one in SETTINGS.items() if one.is_changed_with_others]
OF_STATE = [name for name in TOGETHER if SETTINGS[name].of_state]


class NewGroupForm(GroupForm):
    """What is left out is the default."""

    name = name_field("group", help_text="Letters, digits, “_”, “.”, “-”.")

    def __init__(self, data: Any) -> None:
        once = [name for name, one in SETTINGS.items() if one.once]
        begins = {"partitions": PARTITIONS, **DEFAULTS, "strategy_parameters": ""}
        super().__init__(data, [*once, *STRATEGY_FIELDS, *OF_STATE], initial=begins)
        self.order_fields(["name", *once, *STRATEGY_FIELDS])
        for name in OF_STATE:
            self.fields[name].required = False

    def clean(self) -> dict[str, Any] | None:
        for name in OF_STATE:
            if self.cleaned_data.get(name, 0) is None:
                self.cleaned_data[name] = DEFAULTS[name]
        return super().clean()


PARTITIONS = 12  # that a new group is proposed

NOT_USED = (
    "Not used while the group is stateful: partitions then move when a learner has their state."
    " Save the group as not stateful to choose one."
)


class SettingsForm(GroupForm):
    def __init__(self, data: Any, *, settings: GroupSettings) -> None:
        initial = settings.values()
        initial["strategy_parameters"] = parameters.shown(settings.strategy_parameters)
        super().__init__(data, TOGETHER, initial=initial)
        self.fields["reason"] = _reason("Kept in the audit list.", required=False)
        for name in STRATEGY_FIELDS if settings.stateful else ():
            self.fields[name].disabled, self.fields[name].help_text = True, NOT_USED

    def clean(self) -> dict[str, Any] | None:
        """What is not used is not quietly left out when it is sent all the same."""
        for name in STRATEGY_FIELDS:
            field = self[name]
            if field.field.disabled and self.data.get(name, field.initial) != field.initial:
                self.add_error(name, NOT_USED)
        return super().clean()

    @property
    def last_fields(self) -> Fields:
        return [self["reason"]]

    @property
    def changes(self) -> dict[str, Any]:
        """The settings as they were sent."""
        return {name: value for name, value in self.cleaned_data.items() if name != "reason"}


class RebalanceForm(StrategyForm):
    """Without typed parameters the group's own strategy has the group's own.

    `previewing`: only the preview is wanted, so no reason is needed.
    """

    reason = _reason()
    epochs = forms.CharField(required=False, max_length=100)  # of the group that was shown
    lasting = forms.BooleanField(required=False)  # the group's own strategy from then on

    def __init__(self, data: Any, *, settings: GroupSettings, previewing: bool = False) -> None:
        super().__init__(data, initial={"strategy": settings.strategy})
        self._settings = settings
        self.fields["reason"].required = not previewing

    def meant(self, found: dict[str, Any]) -> Mapping[str, Any]:
        is_own = self.cleaned_data.get("strategy") == self._settings.strategy
        return self._settings.strategy_parameters if is_own and not found else found

    @property
    def chosen(self) -> tuple[str, Mapping[str, Any] | None]:
        """(strategy, parameters); ("", None) as long as nothing right was sent."""
        if not self.is_bound or {"strategy", "strategy_parameters"} & self.errors.keys():
            return "", None
        found = self.cleaned_data
        return found["strategy"], self.meant(found["strategy_parameters"])


DEADLINE_MS = 10 * MINUTE_MS  # what the page proposes (dashboard.md 2.9)


class ScaleDownForm(Form):
    """Who leaves is checked by the rules themselves; `percent` stays the text that was typed.

    `previewing`: only what would happen is wanted, so no reason is needed.
    """

    percent = forms.CharField(required=False, max_length=20)
    shown = forms.CharField(required=False, max_length=20)  # the percentage of the list
    timeout = field_of(
        "scale_down_timeout_ms",
        help_text="From when they are told; a number alone is minutes. Empty: no limit."
        " 0: at once.",
        initial=DEADLINE_MS,
        label="Deadline",
        alone_ms=MINUTE_MS,
    )
    at_deadline = forms.ChoiceField(
        choices=[("force", "force the rest out"), ("abort", "give back: the rest stay")],
        required=False,
        label="At the deadline",
        help_text="At once: a partition whose learner is not ready pauses until it is restored.",
    )
    eager = field_of(
        "learn_partial_rebalance",
        label="Learners take over",
        help_text="As the group has it; another choice changes its settings.",
    )
    force_all = forms.BooleanField(required=False, label="All members leave")
    reason = _reason("Kept in the record, the history and the audit.")

    def __init__(self, data: Any, *, settings: GroupSettings, previewing: bool) -> None:
        super().__init__(data, initial={"eager": settings.learn_partial_rebalance})
        self.fields["reason"].required = not previewing

    @property
    def settings_fields(self) -> Fields:
        return [self[name] for name in ("timeout", "at_deadline", "eager", "reason")]


class ExtendForm(Form):
    timeout = field_of(
        "scale_down_timeout_ms",
        help_text="From when they were told, so longer than now; a number alone is minutes."
        " Empty: no limit.",
        label="New limit",
        alone_ms=MINUTE_MS,
    )
    reason = _reason("Kept in the audit.")


class ReasonForm(Form):
    reason = _reason("Kept in the audit.")


class DigestForm(ReasonForm):
    """`digest`: of the plan that was shown."""

    digest = forms.RegexField(r"^[0-9a-f]{64}$", widget=forms.HiddenInput)


class SwitchForm(ReasonForm):
    """`epoch`: the mode epoch that was shown; another one may have switched meanwhile."""

    mode = forms.ChoiceField(
        choices=[(m.value, m.value) for m in Coordination], widget=forms.HiddenInput
    )
    epoch = forms.IntegerField(min_value=0, widget=forms.HiddenInput)


class PauseForm(ReasonForm):
    """`do`: what was shown as possible. `name`: of the group, when it has to be typed."""

    do = forms.ChoiceField(choices=[(n, n) for n in ("pause", "resume")], widget=forms.HiddenInput)
    typed = forms.CharField(label="Group", help_text="Type its name: all of it stands still.")

    def __init__(self, *args: Any, name: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self._name = name
        if not name:
            del self.fields["typed"]

    def clean_typed(self) -> str:
        if self.cleaned_data["typed"] != self._name:
            raise forms.ValidationError(f"the group is {self._name}")
        return self._name


class SkipForm(ReasonForm):
    """`entry`: the one that was shown; another may be the next one meanwhile."""

    entry = forms.RegexField(r"^[0-9]{1,16}-[0-9]{1,16}$", widget=forms.HiddenInput)


class LettersForm(ReasonForm):
    """`do`: what is done with which. `until`: when the letters were looked at, by Redis' clock, so
    that nothing is done to one that nobody saw come.
    """

    do = forms.ChoiceField(
        choices=[(n, n) for n in ("chosen", "found", "replay_chosen", "replay_found")]
    )
    until = forms.IntegerField(min_value=0, max_value=2**53 - 1, widget=forms.HiddenInput)

    @property
    def shown_fields(self) -> Fields:
        return [self["reason"]]
