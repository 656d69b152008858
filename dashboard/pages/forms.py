"""What people may type. Bounds are those of the values themselves; errors name what was typed."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms

from assignment import kept, strategies, types
from assignment.errors import InvalidInput
from dashboard.pages import parameters
from dashboard.pages.amounts import MINUTE_MS
from dashboard.pages.fields import CountField, DurationField, SizeField

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
STRATEGIES = [(name, name) for name in strategies.NAMES]


def _reason(help_text: str = "", **more: Any) -> forms.CharField:
    return forms.CharField(max_length=REASON_MAX, help_text=help_text, **more)


class StrategyForm(Form):
    """A strategy with its parameters, checked together."""

    strategy_help = parameters.HELP
    strategy = forms.ChoiceField(choices=STRATEGIES)
    strategy_parameters = forms.CharField(
        required=False,
        label="Its parameters",
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="JSON, as below. Empty: none.",
    )

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


def _up_to(name: str, help_text: str) -> CountField:
    most = types.REPLICA_LIMITS[name]
    return CountField(least=0, most=most, required=False, help_text=help_text)


def _limit(help_text: str, **more: Any) -> DurationField:
    """Of a scale-down; empty is none."""
    most = types.REPLICA_LIMITS["scale_down_timeout_ms"]
    return DurationField(least=0, most=most, required=False, help_text=help_text, **more)


def eager_or_stable(help_text: str) -> forms.TypedChoiceField:
    return forms.TypedChoiceField(
        choices=[("True", "eager: each as soon as it is ready"), ("False", "stable: all together")],
        coerce=lambda text: text == "True",
        empty_value=True,  # type: ignore[arg-type]  # of the coerced kind
        required=False,
        help_text=help_text,
    )


NUMBERS = ("standby_replicas", "learners_max", "acceptable_lag_records")


class StateForm(Form):
    """What counts in a stateful group only (learners.md), with the defaults of the values."""

    stateful = forms.BooleanField(
        required=False,
        help_text="Partitions keep state: who is to take one over learns it first, from replicas.",
    )
    standby_replicas = _up_to(
        "standby_replicas", "Replicas of each partition's state, kept up to date on other members."
    )
    learners_max = _up_to("learners_max", "Learners at one time in the group. 0: no limit.")
    acceptable_lag_records = _up_to(
        "acceptable_lag_records", "A learner that is no further behind is ready. 0: fully restored."
    )
    learn_partial_rebalance = eager_or_stable(
        "When learners take over: each alone, or a member's learners in one rebalance."
    )
    scale_down_timeout_ms = _limit(
        "After so long the rest are forced out, as 10 min; a number alone is milliseconds."
        " Empty: no limit. 0: at once.",
        label="Scale-down limit",
    )

    def clean(self) -> dict[str, Any] | None:
        """An empty number is the default, except the limit: there it means none."""
        for name in NUMBERS:
            if self.cleaned_data.get(name, 0) is None:
                self.cleaned_data[name] = 0
        return super().clean()

    @property
    def state_fields(self) -> Fields:
        return [field for field in self if field.name in StateForm.base_fields]

    @property
    def general_fields(self) -> Fields:
        apart = {*StateForm.base_fields, "reason"}
        return [field for field in self if field.name not in apart]


def _name_of(kind: str, help_text: str) -> forms.CharField:
    def check(text: str) -> None:
        try:
            types.valid_name(kind, text)
        except InvalidInput as error:
            raise forms.ValidationError(str(error)) from error

    return forms.CharField(max_length=types.NAME_MAX, help_text=help_text, validators=[check])


class NewGroupForm(StateForm, StrategyForm):
    name = _name_of("group", "Letters, digits, “_”, “.”, “-”.")
    stream = _name_of("stream", "The Redis stream it reads; made when it is not there yet.")
    partitions = CountField(
        least=1,
        most=types.PARTITIONS_MAX,
        initial=12,
        help_text="Fixed from then on: keys are hashed over it.",
    )
    strategy = forms.ChoiceField(
        choices=STRATEGIES,
        initial=strategies.DEFAULT,
        help_text="Sticky moves the fewest partitions. A stateful group does not use it.",
    )
    field_order = ("name", "stream", "partitions", "strategy", "strategy_parameters")


def _timing(label: str, help_text: str) -> DurationField:
    low, high = types.TIMING_MIN_MS, types.TIMING_MAX_MS
    return DurationField(least=low, most=high, label=label, help_text=help_text)


NOT_USED = (
    "Not used while the group is stateful: partitions then move when a learner has their state."
    " Save the group as not stateful to choose one."
)


class SettingsForm(StateForm, StrategyForm):
    strategy = forms.ChoiceField(
        choices=STRATEGIES, help_text="Used by every rebalance from the next one on."
    )
    lease_ms = _timing(
        "Lease", "How long a lock lives without a renew. The consumer stops at 80 % of it."
    )
    renew_ms = _timing("Renew", "How often locks are renewed: at most a third of the lease.")
    heartbeat_ms = _timing("Heartbeat", "How often an agent reports to this dashboard.")
    session_timeout_ms = _timing(
        "Session timeout", "Silence after which a member is lost: at most the lease."
    )
    instance_timeout_ms = _timing(
        "Instance timeout", "So long a member with an instance name may take to restart."
    )
    grace_ms = _timing("Grace", "How long a revoked partition may finish its batch in hand.")
    consumer_stall_ms = _timing(
        "Consumer stall", "No batch for so long while there is lag: stalled, and restarted."
    )
    dead_letters = forms.ChoiceField(
        choices=[(name, name) for name in types.DEAD_LETTER_POLICIES],
        help_text="Keep: a malformed entry rides in the commit. Halt: the partition stops at it.",
    )
    trimming = forms.BooleanField(
        required=False, help_text="Off: neither streams nor changelogs lose an entry."
    )
    events_kept_ms = DurationField(
        least=0,
        most=kept.KEPT_LIMITS["events_kept_ms"],
        label="Events kept",
        help_text="How long committed events stay, from when they were appended.",
    )
    events_kept_bytes = SizeField(
        least=0,
        most=kept.KEPT_LIMITS["events_kept_bytes"],
        label="Events kept, at most",
        help_text="Memory of the stream, each partition its share; the oldest committed go first.",
    )
    masked_fields = forms.CharField(
        required=False,
        max_length=kept.MASKED_MAX,
        help_text="Fields of an event that are not shown to whoever looks at events, by comma.",
    )
    reason = _reason("Kept in the audit list.", required=False)

    def __init__(self, data: Any, *, settings: types.GroupSettings) -> None:
        initial = {name: getattr(settings, name) for name in self.base_fields if name != "reason"}
        initial["strategy_parameters"] = parameters.shown(settings.strategy_parameters)
        super().__init__(data, initial=initial)
        for name in NUMBERS:
            self.fields[name].required = True
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

    def __init__(
        self, data: Any, *, settings: types.GroupSettings, previewing: bool = False
    ) -> None:
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
    timeout = _limit(
        "From when they are told; a number alone is minutes. Empty: no limit. 0: at once.",
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
    eager = eager_or_stable("As the group has it; another choice changes its settings.")
    force_all = forms.BooleanField(required=False, label="All members leave")
    reason = _reason("Kept in the record, the history and the audit.")

    def __init__(self, data: Any, *, settings: types.GroupSettings, previewing: bool) -> None:
        super().__init__(data, initial={"eager": settings.learn_partial_rebalance})
        self.fields["eager"].label = "Learners take over"
        self.fields["reason"].required = not previewing

    @property
    def settings_fields(self) -> Fields:
        return [self[name] for name in ("timeout", "at_deadline", "eager", "reason")]


class ExtendForm(Form):
    timeout = _limit(
        "From when they were told, so longer than now; a number alone is minutes. Empty: no limit.",
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
        choices=[(m.value, m.value) for m in types.Coordination], widget=forms.HiddenInput
    )
    epoch = forms.IntegerField(min_value=0, widget=forms.HiddenInput)


class SkipForm(ReasonForm):
    """`entry`: the one that was shown; another may be the next one meanwhile."""

    entry = forms.RegexField(r"^[0-9]{1,16}-[0-9]{1,16}$", widget=forms.HiddenInput)
