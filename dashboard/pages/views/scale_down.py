"""Scale-downs: the wizard that drains members, and the page of one, running or ended."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse

from assignment.coordinator import scale_down as rules
from assignment.errors import InvalidInput
from dashboard.actions import at_once, drafting, plans
from dashboard.actions import scale_down as actions
from dashboard.actions.preview import Asked, Preview, preview
from dashboard.live.connection import StoreUnavailable
from dashboard.models import AtDeadline, Group, Plan, ScaleDown, ScaleDownState
from dashboard.pages.forms import ExtendForm, ReasonForm, ScaleDownForm
from dashboard.pages.views import base
from dashboard.records.audit import By
from dashboard.records.queries import scale_downs

BESIDE = ("member", "preview", "propose")  # sent with the wizard's own fields
ALL = 100  # percent that stay: a list of everybody, nobody marked
PROPOSED = "The plan is proposed: somebody else may approve it."
NOBODY = "Nobody is marked: mark who is to leave, or say how many to keep (%)."


# --- the wizard -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """Who would leave now. The errors are sentences for their place on the page."""

    found: Preview | None
    percent: str = ""
    percent_error: str = ""
    members_error: str = ""
    problem: str = ""

    @property
    def share(self) -> str:
        """Of the members that stay: what was typed, as long as it gives their number."""
        if self.found is None or not self.found.members:
            return ""
        if _fits(self.percent, self.found):
            return self.percent
        return f"{100 * self.found.stay / self.found.members:.1f}".removesuffix(".0")

    @property
    def is_good(self) -> bool:
        said = self.percent_error or self.members_error or self.problem
        return self.found is not None and not said and not self.found.refused


def new_scale_down(request: HttpRequest, name: str) -> HttpResponse:
    """GET and POST with `preview` change nothing; POST makes a plan that drains those that are
    marked, and runs it, or proposes it.
    """
    seen = base.see(name)
    previewing = request.method != "POST" or "preview" in request.POST
    form = ScaleDownForm(base.sent(request), settings=seen.group.values, previewing=previewing)
    typed = base.sent(request) or request.GET
    names = typed.getlist("member")
    begins = request.method == "GET" and not names
    percent = typed.get("percent", _few_leave(seen) if begins else "").strip()
    renewed = percent if percent != typed.get("shown", "").strip() else ""
    try:
        previewed = _look(seen.group, renewed, names, force_all="force_all" in typed)
    except StoreUnavailable as error:
        previewed = Previewed(found=None, problem=str(error))
    previewed = replace(previewed, percent=percent)
    if not previewing and form.is_valid() and previewed.is_good and not renewed:
        plan = _start(request, seen, form, previewed)
        if plan is not None and plan.started_at_ms is None:
            return base.done(request, PROPOSED, "plan", name, plan.pk)
        if plan is not None:
            count = len(plan.scale_down.members)
            said = f"{count} member{'s are' if count > 1 else ' is'} draining."
            return base.done(request, said, "scale_down", name, plan.scale_down.pk)
    elif not previewing and renewed and previewed.is_good:
        form.add_error(None, "The list was for another percentage: look at it, then confirm.")
    context = base.group_context(seen, "new_scale_down") | {
        "form": form,
        "previewed": previewed,
        "shown": percent if renewed else typed.get("shown", ""),
    }
    return base.show(request, "new_scale_down", context, fragments=("leavers",))


def _few_leave(seen: base.Seen) -> str:
    """The percentage with which the page begins."""
    members = len(seen.snapshot.members) if seen.snapshot else 0
    return str(100 * (members - 1) // members) if members > 1 else ""


def _look(group: Group, percent: str, names: Sequence[str], *, force_all: bool) -> Previewed:
    """By the percentage when there is a new one, else by the marked names; what is wrong with them
    is said beside a list of everybody.
    """
    asked: dict[str, Any] = {"members": names, "force_all": force_all}
    if percent:
        asked = {"percent": percent}
    try:
        if not percent and not names:
            return Previewed(found=preview(group, percent=ALL), members_error=NOBODY)
        found = preview(group, **asked)
    except InvalidInput as error:
        place = "percent_error" if percent else "members_error"
        return Previewed(found=preview(group, percent=ALL), **{place: str(error)})
    nobody = percent and not (found.leave or found.refused)
    is_everybody = f"{percent} % of {found.members} is everybody."
    return Previewed(found=found, percent_error=is_everybody if nobody else "")


def _start(
    request: HttpRequest, seen: base.Seen, form: ScaleDownForm, previewed: Previewed
) -> Plan | None:
    """None when it was refused; the form says why."""
    assert previewed.found is not None
    values, leave = form.cleaned_data, [leaver.member_id for leaver in previewed.found.leave]
    fits = _fits(previewed.percent, previewed.found)
    asked = Asked(percent=int(previewed.percent) if fits else None, members=tuple(leave))
    make = plans.propose if "propose" in request.POST else at_once.carry_out
    group = seen.group

    def drain(by: By) -> Plan:
        at_deadline = values["at_deadline"] or AtDeadline.FORCE
        how = actions.how_of(group, values["timeout"], at_deadline, values["eager"])
        return make(group, drafting.drain(group, asked, how, force_all=values["force_all"]), by)

    return base.attempt(request, form, drain, also=BESIDE)


def _fits(typed: str, found: Preview) -> bool:
    """Whether this percentage gives as many members as the list, which may have been edited."""
    is_number = typed.isascii() and typed.isdecimal() and len(typed) <= 3
    if not is_number or not 1 <= int(typed) <= ALL or not found.members:
        return False
    return rules.split(found.members, int(typed)).stay == found.stay


# --- one ------------------------------------------------------------------------------------------

CHANGED = {
    "extend": "The limit is extended.",
    "force": "{member} is forced out.",
    "abort": "Aborted: who is still here stays.",
}


def scale_down(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """GET ?do=extend, force or abort asks for the reason first; the POST of it does it."""
    seen = base.see(name)
    row = seen.group.scale_downs.filter(pk=pk).first()
    if row is None:
        raise Http404(f"Group {name} has no scale-down {pk}.")
    do = base.asked_to(request, CHANGED)
    if request.method == "POST" and not do:
        raise BadRequest(f"do= is missing: {', '.join(CHANGED)}")
    form = _form(request, do, row)
    member = (base.sent(request) or request.GET).get("member", "")
    if form:
        change = partial(_change, row, do, form, member)
        if base.attempt(request, form, change, also=("do", "member")):
            return base.done(request, CHANGED[do].format(member=member), "scale_down", name, pk)
    context = base.group_context(seen, "scale_down") | _progress(row)
    context |= {
        "row": row,
        "do": do if form and (form.is_bound or row.state == ScaleDownState.RUNNING) else "",
        "form": form,
        "member": member,
        "rounds": scale_downs.rounds(row),
    }
    return base.show(request, "scale_down", context, fragments=("scale_down",))


def _form(request: HttpRequest, do: str, row: ScaleDown) -> ExtendForm | ReasonForm | None:
    if do == "extend":
        return ExtendForm(base.sent(request), initial={"timeout": 2 * (row.timeout_ms or 0)})
    return ReasonForm(base.sent(request)) if do in ("force", "abort") else None


def _change(
    row: ScaleDown, do: str, form: ExtendForm | ReasonForm, member: str, by: By
) -> ScaleDown:
    if do == "extend":
        return actions.extend(row, form.cleaned_data["timeout"], by)
    return actions.force(row, member, by) if do == "force" else actions.abort(row, by)


def _progress(row: ScaleDown) -> base.Context:
    """Live while it runs; of one that ended what the record says."""
    found, why = None, ""
    if row.state == ScaleDownState.RUNNING:
        try:
            found = scale_downs.progress(row)
        except StoreUnavailable as error:
            why = str(error)
    members = found.members if found else scale_downs.recorded(row)
    return {
        "progress": found,
        "not_known": why,
        "members": members,
        "gone": sum(bool(member.outcome) for member in members),
        "took_ms": (row.ended_at_ms or row.asked_at_ms) - row.asked_at_ms,
        "left": [(member, left) for member in members for left in member.partitions],
    }
