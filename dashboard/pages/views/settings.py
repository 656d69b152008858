"""What changes a group: its settings, and a rebalance on request with a look at it before."""

from functools import partial

from django.http import HttpRequest, HttpResponse

from assignment.errors import InvalidInput
from dashboard.actions import groups as actions
from dashboard.live.connection import StoreUnavailable
from dashboard.pages.forms import RebalanceForm, SettingsForm
from dashboard.pages.views import base
from dashboard.records.queries import previews


def group_settings(request: HttpRequest, name: str) -> HttpResponse:
    seen = base.see(name)
    form = SettingsForm(base.sent(request), settings=seen.group.values)
    if request.method == "POST" and form.is_valid():
        by = base.by(request, form.cleaned_data["reason"])
        if base.attempt(form, lambda: actions.change_settings(seen.group, form.changes, by)):
            return base.done(request, f"Settings of {name} are saved.", "group_settings", name)
    context = base.group_context(seen, "group_settings") | {"form": form}
    return base.show(request, "settings", context)


def rebalance_preview(request: HttpRequest, name: str) -> HttpResponse:
    """GET and POST with `preview` look, else POST runs: by the same rule, computed anew then."""
    seen, previewing = base.see(name), "preview" in request.POST
    form = RebalanceForm(base.sent(request), settings=seen.group.values, previewing=previewing)
    strategy, parameters = form.chosen
    if request.method == "POST" and not previewing and form.is_valid():
        ask = partial(actions.request_rebalance, strategy=strategy, parameters=parameters)
        by = base.by(request, form.cleaned_data["reason"])
        if base.attempt(form, lambda: ask(seen.group, by)):
            said = "Rebalance asked for; its line appears here when it ran."
            return base.done(request, said, "group_history", name)
    context = base.group_context(seen, "rebalance_preview") | {
        "form": form,
        "rule": previews.RULE,
        "found": None,
        "chosen": request.POST.get("strategy", ""),
    }
    try:
        context["found"] = previews.of_group(name, strategy, parameters)
    except (StoreUnavailable, InvalidInput) as error:
        context["problem"] = str(error)
    return base.show(request, "preview", context)
