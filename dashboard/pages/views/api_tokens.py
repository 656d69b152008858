"""One's own tokens for the API: create, shown once, revoke."""

from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse

from dashboard.actions import api_tokens as actions
from dashboard.actions.roles import Action
from dashboard.api.v1.addresses import curl
from dashboard.pages.token_forms import NewApiTokenForm
from dashboard.pages.views import base
from dashboard.records.audit import By
from dashboard.records.person_token import PersonToken

SHOWN_MAX = 200
CHANGES = ("create", "revoke")


def api_tokens(request: HttpRequest) -> HttpResponse:
    user = request.user
    assert isinstance(user, User)  # the gate lets nobody else in
    do = base.asked_to(request, CHANGES)
    if request.method != "POST":
        return _page(request, user, NewApiTokenForm())
    if not do:
        raise BadRequest(f"do= is missing: {', '.join(CHANGES)}")
    if do == "create":
        return _create(request, user)
    base.only(request, ("do", "token"))
    key = request.POST.get("token", "")
    token = user.api_tokens.filter(pk=int(key)).first() if base.is_key(key) else None
    if token is None:
        raise Http404("You have no such token.")
    actions.revoke(token, base.by(request))
    return base.done(request, f"Token {token.name} is revoked.", "api_tokens")


def _create(request: HttpRequest, user: User) -> HttpResponse:
    form = NewApiTokenForm(request.POST)

    def create(by: By) -> actions.MadeApiToken:
        typed = form.cleaned_data
        scopes = [action for action in Action if action.key in typed["scopes"]]
        until = form.expires_at()
        assert until is not None  # the field is required
        return actions.create(user, by, name=typed["name"], scopes=scopes, expires_at=until)

    made = base.attempt(request, form, create, also=("do",))
    if made is None:
        return _page(request, user, form)
    # The answer to the POST itself: the token is in no address, session or log.
    command = curl(request, "/groups")
    shown = _page(request, user, NewApiTokenForm(), made=made, command=command)
    shown["Cache-Control"] = "no-store"
    return shown


def _page(request: HttpRequest, user: User, form: NewApiTokenForm, **more: Any) -> HttpResponse:
    context = {"section": "", "form": form, "tokens": valid_first(user), **more}
    return base.show(request, "api_tokens", context)


def valid_first(user: User) -> list[PersonToken]:
    """The newest of a person's."""
    rows = user.api_tokens.all()[:SHOWN_MAX]
    return sorted(rows, key=lambda token: token.state != "valid")
