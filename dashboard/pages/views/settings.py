"""What changes a group: its settings, what it needs attention for, and who coordinates it."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from assignment.types import Coordination
from dashboard.actions import at_once, attention, drafting, plans
from dashboard.actions.coordination import Switched
from dashboard.live.snapshot import LiveSnapshot
from dashboard.models import Group, Plan
from dashboard.pages.attention_forms import LimitsForm
from dashboard.pages.forms import SettingsForm, SwitchForm
from dashboard.pages.views import base
from dashboard.records.audit import By
from dashboard.records.queries import attention as queries


def group_settings(request: HttpRequest, name: str) -> HttpResponse:
    seen = base.see(name)
    do = base.asked_to(request, ("switch", "attention"))
    if do == "switch" and seen.snapshot is not None:
        return _switch(request, seen, seen.snapshot)
    if do == "attention":
        return _attention(request, seen)
    form = SettingsForm(base.sent(request), settings=seen.group.values)

    def save(by: By) -> Group | Plan:
        change = at_once.propose_settings if "propose" in request.POST else at_once.change_settings
        return change(seen.group, form.changes, by)

    if saved := base.attempt(request, form, save, also=("propose",)):
        return _done(request, seen, saved, f"Settings of {name} are saved.")
    return _page(request, seen, form=form)


PROPOSED = "The plan is proposed: somebody else may approve it."


def _done(
    request: HttpRequest, seen: base.Seen, found: Group | Switched | Plan, said: str
) -> HttpResponse:
    """To the plan while it waits for somebody's approval."""
    if isinstance(found, Plan):
        return base.done(request, PROPOSED, "plan", seen.group.name, found.pk)
    return base.done(request, said, "group_settings", seen.group.name)


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
    form = SwitchForm(base.sent(request), initial=begins)

    def switch(by: By) -> Switched | Plan:
        mode, epoch = Coordination(form.cleaned_data["mode"]), form.cleaned_data["epoch"]
        if "propose" in request.POST:
            return plans.propose(seen.group, drafting.switch(seen.group, mode, epoch), by)
        return at_once.switch(seen.group, mode, by, expected=epoch)

    if found := base.attempt(request, form, switch, also=("propose",)):
        said = f"Coordination is {form.cleaned_data['mode']}; nothing paused or moved."
        return _done(request, seen, found, said)
    return _page(request, seen, switch=form)
