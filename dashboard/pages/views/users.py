"""Users and what is granted to them, for admins; and one's own password."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib.auth import authenticate, update_session_auth_hash
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from dashboard.actions import api_tokens
from dashboard.actions import users as actions
from dashboard.actions.roles import MATRIX, STAGED, Effect, Grant, Role
from dashboard.pages.forms import NoForm
from dashboard.pages.user_forms import GrantForm, NewUserForm, OwnPasswordForm, PasswordForm
from dashboard.pages.views import base
from dashboard.pages.views.api_tokens import valid_first
from dashboard.records.audit import By
from dashboard.single_sign_on.people import identity_of

PAGE = 100


def users(request: HttpRequest) -> HttpResponse:
    form = NewUserForm(base.sent(request))

    def make(by: By) -> User:
        return actions.make_user(form.cleaned_data["name"], form.cleaned_data["password"], by)

    if user := base.attempt(request, form, make):
        said = f"User {user.username} is made: a viewer of every group until something is granted."
        return base.done(request, said, "user", user.pk)
    asked = base.Asked(request.GET)
    text = asked.text("q")
    found = User.objects.filter(username__icontains=text).order_by("username")
    page = Paginator(found.prefetch_related("role_grants"), PAGE)
    context = {
        "section": "users",
        "form": form,
        "asked": asked,
        "q": text,
        "page": page.get_page(asked.whole("page") or 1),
        "roles": list(Role),
        "matrix": [(action, [role in roles for role in Role]) for action, roles in MATRIX.items()],
        "staged": sorted(STAGED),
    }
    return base.show(request, "users", context)


def user(request: HttpRequest, pk: int) -> HttpResponse:
    shown = get_object_or_404(User, pk=pk)
    do = base.asked_to(request, CHANGES)
    if request.method == "POST" and not do:
        raise BadRequest(f"do= is missing: {', '.join(CHANGES)}")
    forms: dict[str, Any] = {"grant": GrantForm(None), "password": PasswordForm(None)}
    if request.method == "POST":
        form, change, said = CHANGES[do](request, shown)
        if base.attempt(request, form, change, also=ALSO.get(do, ("do",))) is not None:
            return base.done(request, said, "user", pk)
        forms[do] = form
    identity = identity_of(shown)
    beside = ("", "grant") if identity else ("", "grant", "password")  # the form itself says it
    context = {
        "section": "users",
        "shown": shown,
        "identity": identity,
        "grants": shown.role_grants.all(),
        "tokens": valid_first(shown),
        "forms": forms,
        "refused_form": None if do in beside else forms[do],
    }
    return base.show(request, "user", context)


# --- changes of one -------------------------------------------------------------------------------

Change = tuple[Any, Callable[[By], bool], str]  # (form, what it does, what is said then)


def _grant(request: HttpRequest, shown: User) -> Change:
    form = GrantForm(request.POST)

    def change(by: By) -> bool:
        typed = form.cleaned_data
        role, effect = Role(typed["role"]), Effect(typed["effect"])
        actions.grant(shown, Grant(role=role, pattern=typed["pattern"], effect=effect), by)
        return True

    return form, change, f"Granted to {shown.username}."


def _revoke(request: HttpRequest, shown: User) -> Change:
    key = request.POST.get("grant", "")
    row = shown.role_grants.filter(pk=int(key)).first() if base.is_key(key) else None
    if row is None:
        raise Http404(f"{shown.username} has no grant {key[: base.TEXT_MAX]!r}.")

    def change(by: By) -> bool:
        actions.revoke(row, by)
        return True

    return NoForm(request.POST), change, f"Taken from {shown.username}: {row}."


def _revoke_token(request: HttpRequest, shown: User) -> Change:
    key = request.POST.get("token", "")
    token = shown.api_tokens.filter(pk=int(key)).first() if base.is_key(key) else None
    if token is None:
        raise Http404(f"{shown.username} has no API token {key[: base.TEXT_MAX]!r}.")

    def change(by: By) -> bool:
        api_tokens.revoke(token, by)
        return True

    return NoForm(request.POST), change, f"Token {token.name} of {shown.username} is revoked."


def _password(request: HttpRequest, shown: User) -> Change:
    form = PasswordForm(request.POST)

    def change(by: By) -> bool:
        actions.set_password(shown, form.cleaned_data["password"], by)
        if shown.pk == request.user.pk:
            update_session_auth_hash(request, shown)
        return True

    said = f"{shown.username} has another password; sessions under the old one have ended."
    return form, change, said


def _active(request: HttpRequest, shown: User, *, active: bool) -> Change:
    def change(by: By) -> bool:
        actions.set_active(shown, active, by)
        return True

    said = "may log in again" if active else "is deactivated and logged out"
    return NoForm(request.POST), change, f"{shown.username} {said}."


CHANGES: dict[str, Callable[[HttpRequest, User], Change]] = {
    "grant": _grant,
    "revoke": _revoke,
    "revoke_token": _revoke_token,
    "password": _password,
    "activate": partial(_active, active=True),
    "deactivate": partial(_active, active=False),
}
ALSO = {
    "revoke": ("do", "grant"),
    "revoke_token": ("do", "token"),
}  # sent beside the fields of the form


# --- oneself --------------------------------------------------------------------------------------


def password(request: HttpRequest) -> HttpResponse:
    """One's own: the old one is asked for."""
    own = request.user
    assert isinstance(own, User)  # the gate lets nobody else in
    name = own.get_username()
    form = OwnPasswordForm(
        base.sent(request),  # who has only the session tries passwords no faster than a stranger
        check=lambda old: authenticate(request, username=name, password=old) is not None,
    )

    def change(by: By) -> bool:
        actions.set_password(own, form.cleaned_data["password"], by)
        update_session_auth_hash(request, own)
        return True

    if base.attempt(request, form, change):
        return base.done(request, "Your password is changed.", "password")
    context = {"section": "", "form": form, "has_password": own.has_usable_password()}
    return base.show(request, "password", context)
