"""What waits for people: plans, with what is decided of them, and what needs attention."""

from typing import Any

from django.http import HttpRequest
from ninja import Query

from dashboard.actions import attention, plans
from dashboard.api.v1 import answers, doors, forms, plan_answers
from dashboard.api.v1.reading import found_in, group_named, now_ms, router
from dashboard.models import Plan
from dashboard.records.queries import attention as attention_queries
from dashboard.records.queries import plans as queries
from dashboard.records.queries.pages import page_of

LINE = tuple(plan_answers.PlanLine.model_fields)


def _found(name: str, pk: int) -> Plan:
    row: Plan = found_in(group_named(name).plans.select_related("group"), "plan", pk=pk)
    return row


def _told(row: Plan) -> dict[str, Any]:
    content = row.content
    return {
        **{name: getattr(row, name) for name in LINE},
        **{name: getattr(content, name) for name in ("inputs", "base", "strategy", "metrics")},
        "moves": [move._asdict() for move in content.every_move],
        "outcomes": row.moved,
        "rule_values": row.rule_values,
    }


@router.get(
    "/groups/{name}/plans",
    response=answers.PieceOf[plan_answers.PlanLine],
    url_name="plans",
    operation_id="list_plans",
)
def list_plans(request: HttpRequest, name: forms.GroupName, asked: Query[forms.ByNumber]) -> Any:
    """Plans, newest first."""
    rows = queries.found(group_named(name))
    if asked.cursor is not None:
        rows = rows.filter(pk__lt=asked.cursor)
    page = page_of(rows, asked.limit)
    return {"items": page.rows, "next": None if page.older is None else str(page.older)}


@router.get(
    "/groups/{name}/plans/{int:pk}",
    response=plan_answers.PlanTold,
    url_name="plan",
    operation_id="read_plan",
)
def read_plan(request: HttpRequest, name: forms.GroupName, pk: forms.Key) -> Any:
    """One plan, whole, as it is decided by."""
    return _told(_found(name, pk))


@router.post(
    "/groups/{name}/plans/{int:pk}/approve",
    response=plan_answers.PlanTold,
    url_name="approve",
    operation_id="approve_plan",
)
def approve(request: HttpRequest, name: forms.GroupName, pk: forms.Key, body: forms.Seen) -> Any:
    """By somebody else than who proposed it, over the digest that was looked at."""
    return _told(
        plans.approve(_found(name, pk), doors.by(request, body.reason), digest=body.digest)
    )


@router.post(
    "/groups/{name}/plans/{int:pk}/reject",
    response=plan_answers.PlanTold,
    url_name="reject",
    operation_id="reject_plan",
)
def reject(request: HttpRequest, name: forms.GroupName, pk: forms.Key, body: forms.Command) -> Any:
    """It will not be run."""
    return _told(plans.reject(_found(name, pk), doors.by(request, body.reason)))


@router.post(
    "/groups/{name}/plans/{int:pk}/run",
    response=plan_answers.PlanTold,
    url_name="run",
    operation_id="run_plan",
)
def run(request: HttpRequest, name: forms.GroupName, pk: forms.Key, body: forms.Command) -> Any:
    """Runs an approved plan as it was approved; one that is stale is refused."""
    return _told(plans.run(_found(name, pk), doors.by(request, body.reason)))


@router.post(
    "/groups/{name}/plans/{int:pk}/cancel",
    response=plan_answers.PlanTold,
    url_name="cancel",
    operation_id="cancel_plan",
)
def cancel(request: HttpRequest, name: forms.GroupName, pk: forms.Key, body: forms.Command) -> Any:
    """By who proposed it, or may do at once what it does."""
    return _told(plans.cancel(_found(name, pk), doors.by(request, body.reason)))


@router.get(
    "/groups/{name}/attention",
    response=answers.AttentionTold,
    url_name="attention",
    operation_id="list_attention",
)
def list_attention(request: HttpRequest, name: forms.GroupName) -> Any:
    """What needs attention now, the worst first, and the last of what is over."""
    group = group_named(name)
    found = attention_queries.of_group(group), attention_queries.past(group)
    now, past = ([one.row for one in rows] for rows in found)
    return {"now": now, "past": past}


@router.post(
    "/groups/{name}/attention/{int:pk}/acknowledge",
    response=answers.OccurrenceTold,
    url_name="acknowledge",
    operation_id="acknowledge_attention",
)
def acknowledge(
    request: HttpRequest, name: forms.GroupName, pk: forms.Key, body: forms.Command
) -> Any:
    """Says that somebody took note; `reason` is the note."""
    rows = group_named(name).occurrences.select_related("group")
    row = found_in(rows, "occurrence", pk=pk)
    return attention.acknowledge(row, doors.by(request, body.reason), now_ms())
