"""Forms of tokens: of agents and of producers."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from assignment.types import NAME_MAX
from dashboard.actions.api_tokens import DAYS_MAX
from dashboard.actions.roles import Action
from dashboard.api.v1.doors import SCOPES
from dashboard.pages.forms import Form


class NewTokenForm(Form):
    name = forms.CharField(
        max_length=NAME_MAX,
        initial="agents",
        help_text="For whom: shown in lists and in the audit.",
    )
    days = forms.IntegerField(
        min_value=1,
        max_value=3_650,
        required=False,
        label="Valid for days",
        help_text="Empty: until it is revoked.",
    )

    def expires_at(self) -> datetime | None:
        days = self.cleaned_data["days"]
        return timezone.now() + timedelta(days=days) if days else None


class NewApiTokenForm(NewTokenForm):
    days = forms.IntegerField(min_value=1, max_value=DAYS_MAX, initial=90, label="Valid for days")
    scopes = forms.MultipleChoiceField(
        choices=[(action.key, f"to {action.value}") for action in SCOPES if action != Action.SEE],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="What it may do as far as you may; to see is always in.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].initial = "scripts"


class NewProducerTokenForm(NewTokenForm):
    stream = forms.CharField(max_length=NAME_MAX, help_text="One that a group reads.")
    field_order = ("stream",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].initial = "producers"
