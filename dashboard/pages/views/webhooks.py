"""Webhooks: create, a new secret, try, remove; and what became of each delivery."""

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse

from assignment.errors import EvenkeelError
from assignment.types import NAME_MAX
from dashboard.actions import webhooks as actions
from dashboard.models import Delivery, DeliveryState, Webhook
from dashboard.pages.forms import Form, NoForm
from dashboard.pages.views import base
from dashboard.webhooks.stored import URL_MAX

SHOWN_MAX = 50  # deliveries
CHANGES = ("create", "rotate", "test", "remove")


class NewWebhookForm(Form):
    name = forms.CharField(max_length=NAME_MAX, help_text="Letters, digits, “_”, “.”, “-”.")
    url = forms.CharField(
        max_length=URL_MAX,
        label="Address",
        widget=forms.TextInput({"inputmode": "url", "autocomplete": "off", "spellcheck": "false"}),
        help_text="https://host/path, of a host that is allowed.",
    )


def webhooks(request: HttpRequest) -> HttpResponse:
    do = base.asked_to(request, CHANGES)
    if request.method != "POST":
        return _page(request, NewWebhookForm())
    if not do:
        raise BadRequest(f"do= is missing: {', '.join(CHANGES)}")
    return _create(request) if do == "create" else _change(request, do)


def _create(request: HttpRequest) -> HttpResponse:
    form = NewWebhookForm(request.POST)
    made = base.attempt(
        request,
        form,
        lambda by: actions.create(form.cleaned_data["name"], form.cleaned_data["url"], by),
        also=("do",),
    )
    return _page(request, form) if made is None else _made(request, made)


def _change(request: HttpRequest, do: str) -> HttpResponse:
    base.only(request, ("do", "webhook"))
    key, by = request.POST.get("webhook", ""), base.by(request)
    hook = Webhook.objects.filter(pk=int(key)).first() if base.is_key(key) else None
    if hook is None:
        raise Http404("There is no such webhook.")
    try:
        if do == "rotate":
            return _made(request, actions.rotate(hook, by))
        if do == "test":
            actions.send_test(hook, by)
            return base.done(request, f"A test for {hook.name} is on its way.", "webhooks")
        actions.remove(hook, by)
    except EvenkeelError as error:
        form = NoForm(request.POST)
        form.add_error(None, str(error))
        return _page(request, NewWebhookForm(), refused_form=form)
    return base.done(request, f"Webhook {hook.name} is removed.", "webhooks")


def _made(request: HttpRequest, made: actions.MadeWebhook) -> HttpResponse:
    """The answer to the POST itself: the secret is in no address, session or log."""
    shown = _page(request, NewWebhookForm(), made=made)
    shown["Cache-Control"] = "no-store"
    return shown


def _page(request: HttpRequest, form: NewWebhookForm, **more: Any) -> HttpResponse:
    hooks = list(Webhook.objects.all())
    waiting = Delivery.objects.filter(state=DeliveryState.PENDING).order_by()
    context = {
        "section": "webhooks",
        "form": form,
        "hooks": hooks,
        "waiting": waiting.count(),
        "deliveries": Delivery.objects.select_related("webhook")[:SHOWN_MAX],
        "hosts": settings.WEBHOOK_HOSTS,
        "networks": settings.WEBHOOK_NETWORKS,
        **more,
    }
    return base.show(request, "webhooks", context, fragments=("deliveries",))
