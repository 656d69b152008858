"""Tokens of producers: create, shown once, revoke. Not of one group: several may read a stream."""

from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse

from dashboard.actions import producers as actions
from dashboard.agents.producer_token import ProducerToken
from dashboard.models import Group
from dashboard.pages.token_forms import NewProducerTokenForm
from dashboard.pages.views import base
from dashboard.records.audit import By

SHOWN_MAX = 500
CHANGES = ("create", "revoke")


def producers(request: HttpRequest) -> HttpResponse:
    do = base.asked_to(request, CHANGES)
    if request.method != "POST":
        return _page(request, NewProducerTokenForm())
    if not do:
        raise BadRequest(f"do= is missing: {', '.join(CHANGES)}")
    if do == "create":
        return _create(request)
    base.only(request, ("do", "token"))
    key = request.POST.get("token", "")
    token = ProducerToken.objects.filter(pk=int(key)).first() if base.is_key(key) else None
    if token is None:
        raise Http404("There is no such token of a producer.")
    actions.revoke_token(token, base.by(request))
    said = f"Token {token.name} of {token.stream} is revoked; its connections are ended."
    return base.done(request, said, "producers")


def _create(request: HttpRequest) -> HttpResponse:
    form = NewProducerTokenForm(request.POST)

    def create(by: By) -> actions.MadeProducerToken:
        stream, name = form.cleaned_data["stream"], form.cleaned_data["name"]
        return actions.create_token(stream, by, name=name, expires_at=form.expires_at())

    made = base.attempt(request, form, create, also=("do",))
    if made is None:
        return _page(request, form)
    # The answer to the POST itself: the token is in no address, session or log.
    shown = _page(request, NewProducerTokenForm(), made=made, command=actions.command(made))
    shown["Cache-Control"] = "no-store"
    return shown


def _page(request: HttpRequest, form: NewProducerTokenForm, **more: Any) -> HttpResponse:
    rows = ProducerToken.objects.all()[:SHOWN_MAX]
    context = {
        "section": "producers",
        "form": form,
        "tokens": sorted(rows, key=lambda token: token.state != "valid"),
        "streams": Group.objects.order_by("stream").values_list("stream", flat=True).distinct(),
        **more,
    }
    return base.show(request, "producers", context)
