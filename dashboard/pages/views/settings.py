"""What changes a group: its settings, and a rebalance on request with a look at it before."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from assignment.errors import InvalidInput
from dashboard.actions import groups as actions
from dashboard.live import StoreUnavailable
from dashboard.models import AuditSource
from dashboard.pages.forms import RebalanceForm, SettingsForm
from dashboard.pages.views.common import group_context, see, sent, show
from dashboard.records.queries import previews


@login_required
def group_settings(request: HttpRequest, name: str) -> HttpResponse:
    seen = see(name)
    form = SettingsForm(sent(request), settings=seen.group.values)
    if request.method == "POST" and form.is_valid():
        try:
            actions.change_settings(
                seen.group,
                form.changes,
                actor=request.user.get_username(),
                reason=form.cleaned_data["reason"],
                source=AuditSource.PAGE,
            )
        except InvalidInput as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"Settings of {name} are saved.")
            return HttpResponseRedirect(reverse("group_settings", args=[name]))
    context = group_context(seen, "group_settings") | {"form": form}
    return show(request, "settings", context)


@login_required
def rebalance_preview(request: HttpRequest, name: str) -> HttpResponse:
    """GET looks, so does POST with `preview`; else POST runs. What runs is computed anew by the
    coordinator, from the same rule.
    """
    seen, previewing = see(name), "preview" in request.POST
    form = RebalanceForm(sent(request), settings=seen.group.values, previewing=previewing)
    strategy, parameters = form.chosen
    if request.method == "POST" and not previewing and form.is_valid():
        try:
            actions.request_rebalance(
                seen.group,
                strategy=strategy,
                parameters=parameters,
                reason=form.cleaned_data["reason"],
                actor=request.user.get_username(),
                source=AuditSource.PAGE,
            )
        except InvalidInput as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "Rebalance asked for; its line appears here when it ran.")
            return HttpResponseRedirect(reverse("group_history", args=[name]))
    context = group_context(seen, "rebalance_preview") | {
        "form": form,
        "rule": previews.RULE,
        "found": None,
        "chosen": request.POST.get("strategy", ""),
    }
    try:
        context["found"] = previews.of_group(name, strategy, parameters)
    except (StoreUnavailable, InvalidInput) as error:
        context["problem"] = str(error)
    return show(request, "preview", context)
