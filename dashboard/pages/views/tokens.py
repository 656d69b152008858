"""Tokens of a group's agents: create, shown once, rotate, revoke."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from dashboard.actions import groups as actions
from dashboard.pages.token_forms import NewTokenForm
from dashboard.pages.views import base
from dashboard.records.audit import By

SHOWN_MAX = 200
CHANGES = ("create", "rotate", "revoke")


def tokens(request: HttpRequest, name: str) -> HttpResponse:
    seen = base.see(name)
    do = base.asked_to(request, CHANGES)
    if request.method != "POST":
        return _page(request, seen, NewTokenForm())
    if not do:
        raise BadRequest(f"do= is missing: {', '.join(CHANGES)}")
    if do == "create":
        return _create(request, seen)
    base.only(request, ("do", "token"))
    key = request.POST.get("token", "")
    token = seen.group.tokens.filter(pk=int(key)).first() if base.is_key(key) else None
    if token is None:
        raise Http404(f"Group {name} has no such token.")
    if do == "rotate":
        try:
            return _shown(request, seen, actions.rotate_token(token, base.by(request)))
        except actions.Refused as error:
            messages.error(request, str(error))
    else:
        actions.revoke_token(token, base.by(request))
        said = f"Token {token.name} is revoked; agents that use it are refused."
        return base.done(request, said, "tokens", name)
    return redirect("tokens", name)


def _create(request: HttpRequest, seen: base.Seen) -> HttpResponse:
    form = NewTokenForm(request.POST)

    def create(by: By) -> actions.MadeToken:
        name = form.cleaned_data["name"]
        return actions.create_token(seen.group, by, name=name, expires_at=form.expires_at())

    made = base.attempt(request, form, create, also=("do",))
    return _shown(request, seen, made) if made else _page(request, seen, form)


def _shown(request: HttpRequest, seen: base.Seen, made: actions.MadeToken) -> HttpResponse:
    """The answer to the POST itself: the token is in no address, session or log."""
    url = request.build_absolute_uri("/").rstrip("/")
    command = actions.agent_command(made, url)
    response = _page(request, seen, NewTokenForm(), made=made, command=command)
    response["Cache-Control"] = "no-store"
    return response


def _page(request: HttpRequest, seen: base.Seen, form: NewTokenForm, **more: Any) -> HttpResponse:
    rows = seen.group.tokens.all()[:SHOWN_MAX]
    context = base.group_context(seen, "tokens") | {
        "form": form,
        "tokens": sorted(rows, key=lambda token: token.state != "valid"),
        **more,
    }
    return base.show(request, "tokens", context)
