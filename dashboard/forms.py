"""What people may type. Bounds are those of the values themselves; errors name what was typed."""

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


class NewGroupForm(forms.Form):
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
        choices=STRATEGIES, initial="sticky", help_text="Sticky moves the fewest partitions."
    )

    def clean_name(self) -> str:
        return _valid("group", self.cleaned_data["name"])

    def clean_stream(self) -> str:
        return _valid("stream", self.cleaned_data["stream"])


def _valid(kind: str, text: str) -> str:
    try:
        return valid_name(kind, text)
    except InvalidInput as error:
        raise forms.ValidationError(str(error)) from error


class SettingsForm(forms.Form):
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
        super().__init__(data, initial=initial)
        for name, text in TIMING_HELP.items():
            self.fields[name].help_text = text

    @property
    def changes(self) -> dict[str, Any]:
        """The settings as they were sent."""
        return {name: value for name, value in self.cleaned_data.items() if name != "reason"}


class RebalanceForm(forms.Form):
    strategy = forms.ChoiceField(choices=STRATEGIES)
    reason = forms.CharField(max_length=REASON_MAX)


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
