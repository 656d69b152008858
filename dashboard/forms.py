"""What people may type. Bounds are those of the values themselves; errors name what was typed."""

from collections.abc import Mapping
from typing import Any

from django import forms

from assignment import strategies
from assignment.errors import InvalidInput
from assignment.types import (
    DEAD_LETTER_POLICIES,
    PARTITIONS_MAX,
    TIMING_MAX_MS,
    TIMING_MIN_MS,
    GroupSettings,
    valid_name,
)
from dashboard import parameters

REASON_MAX = 500
STRATEGIES = [(name, name) for name in strategies.NAMES]
TIMING_HELP = {
    "lease_ms": "How long a lock lives without a renew. The consumer stops at 80 % of it.",
    "renew_ms": "How often locks are renewed: at most a third of the lease.",
    "heartbeat_ms": "How often an agent reports to this dashboard.",
    "session_timeout_ms": "Silence after which a member is lost: at most the lease.",
    "grace_ms": "How long a revoked partition may finish its batch in hand.",
    "consumer_stall_ms": "No batch for so long while there is lag: stalled, and restarted.",
}


class StrategyForm(forms.Form):
    """A strategy with its parameters, checked together."""

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

    @property
    def strategy_help(self) -> Mapping[str, parameters.Help]:
        return parameters.HELP


class NewGroupForm(StrategyForm):
    name = forms.CharField(max_length=100, help_text="Letters, digits, “_”, “.”, “-”.")
    stream = forms.CharField(
        max_length=100, help_text="The Redis stream it reads; made when it is not there yet."
    )
    partitions = forms.IntegerField(
        min_value=1,
        max_value=PARTITIONS_MAX,
        initial=12,
        help_text="Fixed from then on: keys are hashed over it.",
    )
    strategy = forms.ChoiceField(
        choices=STRATEGIES,
        initial=strategies.DEFAULT,
        help_text="Sticky moves the fewest partitions.",
    )
    field_order = ("name", "stream", "partitions", "strategy", "strategy_parameters")

    def clean_name(self) -> str:
        return _valid("group", self.cleaned_data["name"])

    def clean_stream(self) -> str:
        return _valid("stream", self.cleaned_data["stream"])


def _valid(kind: str, text: str) -> str:
    try:
        return valid_name(kind, text)
    except InvalidInput as error:
        raise forms.ValidationError(str(error)) from error


class SettingsForm(StrategyForm):
    strategy = forms.ChoiceField(
        choices=STRATEGIES, help_text="Used by every rebalance from the next one on."
    )
    lease_ms = forms.IntegerField(min_value=TIMING_MIN_MS, max_value=TIMING_MAX_MS)
    renew_ms = forms.IntegerField(min_value=TIMING_MIN_MS, max_value=TIMING_MAX_MS)
    heartbeat_ms = forms.IntegerField(min_value=TIMING_MIN_MS, max_value=TIMING_MAX_MS)
    session_timeout_ms = forms.IntegerField(min_value=TIMING_MIN_MS, max_value=TIMING_MAX_MS)
    grace_ms = forms.IntegerField(min_value=TIMING_MIN_MS, max_value=TIMING_MAX_MS)
    consumer_stall_ms = forms.IntegerField(min_value=TIMING_MIN_MS, max_value=TIMING_MAX_MS)
    dead_letters = forms.ChoiceField(
        choices=[(name, name) for name in DEAD_LETTER_POLICIES],
        help_text="Keep: a malformed entry rides in the commit. Halt: the partition stops at it.",
    )
    trimming = forms.BooleanField(
        required=False, help_text="Off: neither streams nor changelogs lose an entry."
    )
    reason = forms.CharField(
        max_length=REASON_MAX, required=False, help_text="Kept in the audit list."
    )

    def __init__(self, data: Any, *, settings: GroupSettings) -> None:
        initial = {name: getattr(settings, name) for name in self.base_fields if name != "reason"}
        initial["strategy_parameters"] = parameters.shown(settings.strategy_parameters)
        super().__init__(data, initial=initial)
        for name, text in TIMING_HELP.items():
            self.fields[name].help_text = text

    @property
    def changes(self) -> dict[str, Any]:
        """The settings as they were sent."""
        return {name: value for name, value in self.cleaned_data.items() if name != "reason"}


class RebalanceForm(StrategyForm):
    """Without typed parameters the group's own strategy has the group's own.

    `looking`: only the preview is wanted, so no reason is needed.
    """

    reason = forms.CharField(max_length=REASON_MAX)

    def __init__(self, data: Any, *, settings: GroupSettings, looking: bool = False) -> None:
        super().__init__(data, initial={"strategy": settings.strategy})
        self._settings = settings
        self.fields["reason"].required = not looking

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


class NewTokenForm(forms.Form):
    name = forms.CharField(
        max_length=100, initial="agents", help_text="For whom: shown in lists and in the audit."
    )
    days = forms.IntegerField(
        min_value=1,
        max_value=3_650,
        required=False,
        label="Valid for days",
        help_text="Empty: until it is revoked.",
    )
