"""Rules that approve plans without a person: what there are, create and remove."""

from typing import Any

from django import forms
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse

from assignment.errors import EvenkeelError, InvalidInput
from assignment.types import NAME_MAX, PARTITIONS_MAX
from dashboard.actions import approval_rules as actions
from dashboard.actions.conditions import Conditions, minute_of
from dashboard.actions.roles import EVERY_GROUP
from dashboard.models import ApprovalRule, PlanKind
from dashboard.pages.fields import CountField
from dashboard.pages.forms import Form, NoForm
from dashboard.pages.views import base

CHANGES = ("create", "remove")


def _time(label: str, help_text: str) -> forms.CharField:
    def check(text: str) -> None:
        try:
            minute_of(text)
        except InvalidInput as error:
            raise forms.ValidationError(str(error)) from error

    return forms.CharField(
        max_length=5, initial="00:00", label=label, help_text=help_text, validators=[check]
    )


class NewRuleForm(Form):
    name = forms.CharField(max_length=NAME_MAX, help_text="Letters, digits, “_”, “.”, “-”.")
    groups = forms.CharField(
        max_length=100,
        initial=EVERY_GROUP,
        help_text="Pattern of their names: * any characters, ? any one.",
    )
    kinds = forms.MultipleChoiceField(
        choices=[(kind, kind.capitalize()) for kind in PlanKind.values],
        widget=forms.CheckboxSelectMultiple,
        label="Kinds of plan",
    )
    moves_max = CountField(
        least=0, most=PARTITIONS_MAX, label="Moves at most", help_text="With those by learners."
    )
    begins = _time("From", "UTC, as 22:00.")
    ends = _time("To", "UTC, as 06:00. The same as From: all day.")

    @property
    def conditions(self) -> Conditions:
        """Raises InvalidInput."""
        values = self.cleaned_data
        return Conditions(
            pattern=values["groups"],
            kinds=tuple(values["kinds"]),
            moves_max=values["moves_max"],
            begins=minute_of(values["begins"]),
            ends=minute_of(values["ends"]),
        )


def approval_rules(request: HttpRequest) -> HttpResponse:
    do = base.asked_to(request, CHANGES)
    if request.method != "POST":
        return _page(request, NewRuleForm())
    if not do:
        raise BadRequest(f"do= is missing: {', '.join(CHANGES)}")
    return _create(request) if do == "create" else _remove(request)


def _create(request: HttpRequest) -> HttpResponse:
    form = NewRuleForm(request.POST)
    made = base.attempt(
        request,
        form,
        lambda by: actions.create(form.cleaned_data["name"], form.conditions, by),
        also=("do",),
    )
    if made is None:
        return _page(request, form)
    return base.done(request, f"Rule {made.name} is created.", "approval_rules")


def _remove(request: HttpRequest) -> HttpResponse:
    base.only(request, ("do", "rule"))
    key = request.POST.get("rule", "")
    rule = ApprovalRule.objects.filter(pk=int(key)).first() if base.is_key(key) else None
    if rule is None:
        raise Http404("There is no such rule.")
    try:
        actions.remove(rule, base.by(request))
    except EvenkeelError as error:
        form = NoForm(request.POST)
        form.add_error(None, str(error))
        return _page(request, NewRuleForm(), refused_form=form)
    return base.done(request, f"Rule {rule.name} is removed.", "approval_rules")


def _page(request: HttpRequest, form: NewRuleForm, **more: Any) -> HttpResponse:
    rules = [
        (rule, _conditions(rule), actions.why_idle(rule))
        for rule in ApprovalRule.objects.select_related("author")
    ]
    context = {"section": "approval_rules", "form": form, "rules": rules, **more}
    return base.show(request, "approval_rules", context)


def _conditions(rule: ApprovalRule) -> Conditions | None:
    """None: it cannot be read, and approves nothing."""
    try:
        return actions.conditions_of(rule)
    except InvalidInput:
        return None
