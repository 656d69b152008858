"""What changes a group: its settings, what it needs attention for, and who coordinates it."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from assignment.types import Coordination
from dashboard.actions import attention, drafting, plans
from dashboard.actions import groups as actions
from dashboard.live.snapshot import LiveSnapshot
from dashboard.models import Plan
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

    def switch(by: By) -> Plan:
        mode, epoch = Coordination(form.cleaned_data["mode"]), form.cleaned_data["epoch"]
        make = plans.propose if "propose" in request.POST else plans.run_now
        return make(seen.group, drafting.switch(seen.group, mode, epoch), by)

    if plan := base.attempt(request, form, switch, also=("propose",)):
        if plan.needs_approval:
            said = "The plan is proposed: somebody else may approve it."
            return base.done(request, said, "plan", name, plan.pk)
        said = f"Coordination is {plan.content.inputs['mode']}; nothing paused or moved."
        return base.done(request, said, "group_settings", name)
    return _page(request, seen, switch=form)
