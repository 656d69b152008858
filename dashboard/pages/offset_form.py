"""The form that sets a committed offset as it was shown."""

from typing import Any

from django import forms

from dashboard.pages.forms import ReasonForm

SEEN_MAX = 200


class OffsetForm(ReasonForm):
    """`seen`: what would come of it, as it was shown; `name`: of the group, when it has to be
    typed.
    """

    seen = forms.CharField(max_length=SEEN_MAX, widget=forms.HiddenInput)
    typed = forms.CharField(label="Group", help_text="Type its name: many events are concerned.")

    def __init__(self, *args: Any, name: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self._name = name
        if not name:
            del self.fields["typed"]

    def clean_typed(self) -> str:
        if self.cleaned_data["typed"] != self._name:
            raise forms.ValidationError(f"the group is {self._name}")
        return self._name
