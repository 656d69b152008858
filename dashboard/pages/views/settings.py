"""What changes a group: its settings, and a rebalance on request with a look at it before."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse

from assignment.errors import InvalidInput
from assignment.types import Coordination
from dashboard.actions import attention, coordination
from dashboard.actions import groups as actions
from dashboard.live.connection import StoreUnavailable
from dashboard.live.snapshot import LiveSnapshot
from dashboard.pages.attention_forms import LimitsForm
from dashboard.pages.forms import RebalanceForm, SettingsForm, SwitchForm
from dashboard.pages.views import base
from dashboard.records.audit import By
from dashboard.records.queries import attention as queries
from dashboard.records.queries import previews


def group_settings(request: HttpRequest, name: str) -> HttpResponse:
    seen = base.see(name)
    do = base.asked_to(request, ("switch", "attention"))
    if do == "switch" and seen.snapshot is not None:
        return _switch(request, seen, seen.snapshot)
    if do == "attention":
        return _attention(request, seen)
    form = SettingsForm(base.sent(request), settings=seen.group.values)
    change = actions.change_settings
    if base.attempt(request, form, lambda by: change(seen.group, form.changes, by)):
        return base.done(request, f"Settings of {name} are saved.", "group_settings", name)
    return _page(request, seen, form=form)


def _page(request: HttpRequest, seen: base.Seen, **forms: Any) -> HttpResponse:
    """With the forms that were sent, and the others as they begin."""
    begins = {
        "form": SettingsForm(None, settings=seen.group.values),
        "limits": LimitsForm(None, limits=queries.limits_of(seen.group)),
    }
    context = base.group_context(seen, "group_settings") | begins | forms
    return base.show(request, "settings", context)


def _attention(request: HttpRequest, seen: base.Seen) -> HttpResponse:
    """From when on the group needs attention."""
    name = seen.group.name
    form = LimitsForm(base.sent(request), limits=queries.limits_of(seen.group))

    def change(by: By) -> Mapping[str, int]:
        return attention.change_limits(seen.group, form.cleaned_data, by)

    if base.attempt(request, form, change, also=("do",)):
        return base.done(request, f"Attention of {name} is saved.", "group_settings", name)
    return _page(request, seen, limits=form)


def _switch(request: HttpRequest, seen: base.Seen, now: LiveSnapshot) -> HttpResponse:
    """To the other coordination, over the mode epoch that was shown."""
    (other,) = set(Coordination) - {now.mode.coordination}
    begins = {"mode": other.value, "epoch": now.mode.epoch}
    form, name = SwitchForm(base.sent(request), initial=begins), seen.group.name

    def switch(by: By) -> coordination.Switched:
        mode, epoch = form.cleaned_data["mode"], form.cleaned_data["epoch"]
        return coordination.switch(seen.group, Coordination(mode), by, expected=epoch)

    if switched := base.attempt(request, form, switch):
        said = f"Coordination is {switched.after.coordination}; nothing paused or moved."
        return base.done(request, said, "group_settings", name)
    return _page(request, seen, switch=form)


IDLE = "Nothing would move: each partition stays with its owner."


def rebalance_preview(request: HttpRequest, name: str) -> HttpResponse:
    """GET and POST with `preview` look, else POST runs: by the same rule, computed anew then. What
    would move nothing is not run.
    """
    seen, previewing = base.see(name), "preview" in request.POST
    form = RebalanceForm(base.sent(request), settings=seen.group.values, previewing=previewing)
    strategy, parameters = form.chosen
    found, problem = _looked_at(name, strategy, parameters)
    chosen = found.chosen(request.POST.get("strategy", "")) if found else None
    idle = IDLE if chosen and chosen.is_idle else ""
    if form.is_bound and idle and not previewing:
        form.add_error(None, idle)
    ask = partial(actions.request_rebalance, seen.group, strategy=strategy, parameters=parameters)
    asked = None if previewing else base.attempt(request, form, ask, also=("preview",))
    if asked:
        said = "Rebalance asked for; its line appears here when it ran."
        return base.done(request, said, "group_history", name)
    context = base.group_context(seen, "rebalance_preview") | {
        "form": form,
        "rule": previews.RULE,
        "found": found,
        "chosen": chosen,
        "idle": idle,
        "why_idle": IDLE,
    }
    if problem:
        context["problem"] = problem
    return base.show(request, "preview", context)


def _looked_at(
    name: str, strategy: str, parameters: Mapping[str, Any] | None
) -> tuple[previews.Previews | None, str]:
    """None with the reason when it cannot be told now."""
    try:
        return previews.of_group(name, strategy, parameters), ""
    except (StoreUnavailable, InvalidInput) as error:
        return None, str(error)
