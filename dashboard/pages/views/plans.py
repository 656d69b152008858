"""Plans of a group: the list, and the page of one, whose address can be given to who decides."""

from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse

from dashboard.actions import plans as actions
from dashboard.actions.roles import Action
from dashboard.models import Plan, PlanKind, PlanState
from dashboard.pages import strips
from dashboard.pages.forms import DigestForm, NoForm, ReasonForm
from dashboard.pages.views import base
from dashboard.records.audit import By
from dashboard.records.queries import plans
from dashboard.records.queries.pages import page_of

DECISIONS = {
    "approve": "The plan is approved: it can be run.",
    "reject": "The plan is rejected.",
    "run": "The plan runs.",
    "cancel": "The plan is cancelled.",
}
MOVES_SHOWN = 500


def group_plans(request: HttpRequest, name: str) -> HttpResponse:
    seen, asked = base.see(name), base.Asked(request.GET)
    found = plans.found(seen.group)
    if before := asked.filters().before:
        found = found.filter(pk__lt=before)
    context = base.group_context(seen, "group_plans") | {
        "asked": asked,
        "page": page_of(found, plans.PAGE),
    }
    return base.show(request, "plans", context, fragments=("plans",))


def plan(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """GET ?do=approve, reject, run or cancel asks first; the POST of it does it."""
    seen = base.see(name)
    row = seen.group.plans.select_related("group").filter(pk=pk).first()
    if row is None:
        raise Http404(f"Group {name} has no plan {pk}.")
    do = base.asked_to(request, DECISIONS)
    if request.method == "POST" and not do:
        raise BadRequest(f"do= is missing: {', '.join(DECISIONS)}")
    form = _form(request, do, row)
    if form and base.attempt(request, form, lambda by: _decide(row, do, form, by), also=("do",)):
        return base.done(request, DECISIONS[do], "plan", name, pk)
    row.refresh_from_db()
    closed = why_closed(row, base.by(request))
    context = (
        base.group_context(seen, "group_plans")
        | _shown(row)
        | {
            "plan": row,
            "do": do if form and (form.is_bound or not closed[do]) else "",
            "form": form,
            "why_closed": closed,
            "offered": _offered(row),
            "address": request.build_absolute_uri(request.path),
        }
    )
    return base.show(request, "plan", context, fragments=("plan",))


def _form(request: HttpRequest, do: str, row: Plan) -> DigestForm | ReasonForm | NoForm | None:
    match do:
        case "approve":
            return DigestForm(base.sent(request), initial={"digest": row.digest})
        case "reject" | "cancel":
            return ReasonForm(base.sent(request))
        case "run":
            return NoForm(base.sent(request))
    return None


def _decide(row: Plan, do: str, form: DigestForm | ReasonForm | NoForm, by: By) -> Plan:
    if do == "approve":
        return actions.approve(row, by, digest=form.cleaned_data["digest"])
    if do == "reject":
        return actions.reject(row, by)
    return actions.run(row, by) if do == "run" else actions.cancel(row, by)


def _offered(row: Plan) -> list[str]:
    """What is possible in its state, by who may."""
    match row.state:
        case PlanState.PROPOSED:
            return ["approve", "reject", "cancel"]
        case PlanState.APPROVED:
            return ["run", "cancel"]
        case PlanState.RUNNING:
            return ["cancel"]
    return []


def why_closed(row: Plan, by: By) -> dict[str, str]:
    """Why this person may not do it; "" when they may."""
    name, right = row.group.name, actions.right_of(row)
    decides = by.rights.why_not(Action.APPROVE, name)
    is_own = by.actor == row.proposed_by
    asks = "" if by.rights.may_look(right, name) else by.rights.why_not(right, name)
    own = "a plan is approved by somebody else than who proposed it"
    return {
        "approve": decides or (own if is_own else ""),
        "reject": decides,
        "run": asks,
        "cancel": asks if is_own else by.rights.why_not(right, name),
        "": "",
    }


def _saved(row: Plan) -> list[tuple[str, Any]]:
    """The settings that it changes."""
    if row.kind != PlanKind.STRATEGY:
        return []
    inputs = row.content.inputs
    return [(name, inputs[name]) for name in sorted(inputs.keys() - {"settings", "strategy"})]


def _shown(row: Plan) -> dict[str, Any]:
    content, compared = row.content, plans.compared(row)
    moves, partitions = content.every_move, row.group.partitions
    after = strips.owners_of(content.rows, partitions)
    return {
        "content": content,
        "saved": _saved(row),
        "compared": compared[:MOVES_SHOWN],
        "counts": sorted(plans.counted(compared).items()),
        "more": max(0, len(compared) - MOVES_SHOWN),
        "rounds": plans.rounds_of(row)[-MOVES_SHOWN:],
        "actual": plans.actual(row),
        "before": strips.owned(strips.before(after, moves)) if content.rows else [],
        "after": strips.owned(after) if content.rows else [],
        "moved": strips.moved(partitions, moves),
    }
