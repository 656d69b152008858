"""Rules that approve plans without a person."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Status

from dashboard.actions import approval_rules as actions
from dashboard.actions.conditions import Conditions, clock, minute_of
from dashboard.api.v1 import answers, doors, forms, plan_answers
from dashboard.api.v1.reading import found_in, router
from dashboard.models import ApprovalRule
from dashboard.records.queries.pages import page_of


def _told(rule: ApprovalRule) -> dict[str, Any]:
    same = ("id", "name", "created_at", "kinds", "moves_max")
    return {
        **{name: getattr(rule, name) for name in same},
        "author": rule.author.username,
        "groups": rule.pattern,
        "begins": clock(rule.begins),
        "ends": clock(rule.ends),
        "idle": actions.why_idle(rule),
    }


@router.get(
    "/approval-rules",
    response=answers.PieceOf[plan_answers.ApprovalRuleTold],
    url_name="approval_rules",
    operation_id="list_approval_rules",
)
def approval_rules(request: HttpRequest, asked: Query[forms.ByNumber]) -> Any:
    """Rules, newest first."""
    rows = ApprovalRule.objects.select_related("author").order_by("-pk")
    if asked.cursor is not None:
        rows = rows.filter(pk__lt=asked.cursor)
    page = page_of(rows, asked.limit)
    older = None if page.older is None else str(page.older)
    return {"items": [_told(rule) for rule in page.rows], "next": older}


@router.post(
    "/approval-rules",
    response={201: plan_answers.ApprovalRuleTold},
    url_name="approval_rules",
    operation_id="create_approval_rule",
)
def create(request: HttpRequest, body: forms.NewApprovalRule) -> Any:
    """Approves plans of others in your name, as long as you may; never yours."""
    conditions = Conditions(
        pattern=body.groups,
        kinds=tuple(body.kinds),
        moves_max=body.moves_max,
        begins=minute_of(body.begins),
        ends=minute_of(body.ends),
    )
    return Status(201, _told(actions.create(body.name, conditions, doors.by(request, body.reason))))


@router.delete(
    "/approval-rules/{int:pk}",
    response=plan_answers.ApprovalRuleTold,
    url_name="approval_rule",
    operation_id="remove_approval_rule",
)
def remove(request: HttpRequest, pk: forms.Key) -> Any:
    """What it approved stays approved."""
    rows = ApprovalRule.objects.select_related("author")
    rule: ApprovalRule = found_in(rows, "approval rule", pk=pk)
    told = _told(rule)
    actions.remove(rule, doors.by(request))
    return told
