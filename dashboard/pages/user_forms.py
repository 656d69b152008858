"""Forms of users: to log in, their passwords, what is granted to them."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, UsernameField

from dashboard.actions.roles import EVERY_GROUP, Role
from dashboard.pages.forms import Form, refuse_unknown

PASSWORD_MAX = 200  # what is longer only costs time to hash
USER_NAME_MAX = 150


class NameField(UsernameField):
    """A name that no user can have, and no database holds, becomes one that it holds and no user
    has: trying it is counted and on record as any failed log in is.
    """

    def to_python(self, value: Any) -> str:
        name = (super().to_python(value) or "").replace("\0", "\N{REPLACEMENT CHARACTER}")
        return name if len(name) <= USER_NAME_MAX else name[:USER_NAME_MAX] + "…"


class LoginForm(AuthenticationForm):
    username = NameField()

    def clean(self) -> dict[str, Any]:
        refuse_unknown(self, self.data, ("next",))
        return self.cleaned_data if self.errors else super().clean()


def _password(kind: str = "new-password", **more: Any) -> forms.CharField:
    """`kind`: for the browser's own store of passwords."""
    widget = forms.PasswordInput({"autocomplete": kind})
    given = {"label": "Password", "widget": widget, **more}
    return forms.CharField(max_length=PASSWORD_MAX, strip=False, **given)


class NewUserForm(Form):
    name = forms.CharField(
        max_length=USER_NAME_MAX,
        help_text="Letters, digits, “@”, “.”, “+”, “-”, “_”.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    password = _password(
        help_text="At least 8 characters, and not a common one. Hand it over yourself."
    )


class PasswordForm(Form):
    password = _password(label="New password", help_text="Ends their sessions.")


class OwnPasswordForm(Form):
    old = _password("current-password", label="Password until now")
    password = _password(
        label="New password", help_text="At least 8 characters, and not a common one."
    )
    again = _password(label="New password, again")

    def __init__(self, data: Any, *, check: Callable[[str], bool]) -> None:
        super().__init__(data)
        self._check = check

    def clean_old(self) -> str:
        old: str = self.cleaned_data["old"]
        if not self._check(old):
            raise forms.ValidationError("This is not your password.")
        return old

    def clean_again(self) -> str:
        again: str = self.cleaned_data["again"]
        if again != self.cleaned_data.get("password"):
            raise forms.ValidationError("The two new passwords differ.")
        return again


class GrantForm(Form):
    effect = forms.ChoiceField(
        choices=[
            ("allow", "allow"),
            ("stage", "stage: each change needs another's approval"),
            ("deny", "deny: counts before all others"),
        ]
    )
    role = forms.ChoiceField(choices=[(role, role) for role in Role])
    pattern = forms.CharField(
        max_length=100,
        initial=EVERY_GROUP,
        label="In groups named",
        help_text="* is any number of characters, ? is one: team-a-*. A single * means all groups.",
    )
