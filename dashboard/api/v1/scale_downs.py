"""Scale-downs: who would leave, draining them, and what may be changed while they leave."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Status

from dashboard.actions import at_once
from dashboard.actions import preview as previews
from dashboard.actions import scale_down as actions
from dashboard.actions.roles import Action
from dashboard.api.v1 import answers, doors, forms, outcomes
from dashboard.api.v1.commands import current, made
from dashboard.api.v1.reading import found_in, group_named, router
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group, Plan, ScaleDown
from dashboard.records.queries import scale_downs as queries
from dashboard.records.queries.pages import Filters, page_of


def _found(group: Group, pk: int) -> ScaleDown:
    row: ScaleDown = found_in(group.scale_downs.select_related("group"), "scale-down", pk=pk)
    return row


def _told(request: HttpRequest, row: ScaleDown) -> dict[str, Any]:
    may = doors.rights_of(request).may(Action.SCALE_DOWN, row.group.name)
    problem, members = "", queries.recorded(row)
    allowed: tuple[str, ...] = ()
    try:
        progress = queries.progress(row)
        members, allowed = progress.members, progress.allowed_actions if may else ()
    except StoreUnavailable as error:
        problem = str(error)
    line = {name: getattr(row, name) for name in answers.ScaleDownLine.model_fields}
    return {**line, "progress": members, "problem": problem, "allowed_actions": allowed}


@router.get(
    "/groups/{name}/scale-downs",
    response=answers.PieceOf[answers.ScaleDownLine],
    url_name="scale_downs",
    operation_id="list_scale_downs",
)
def scale_downs(request: HttpRequest, name: forms.GroupName, asked: Query[forms.ByNumber]) -> Any:
    """Scale-downs, newest first."""
    rows = queries.found(group_named(name), Filters(before=asked.cursor))
    page = page_of(rows, asked.limit)
    return {"items": page.rows, "next": None if page.older is None else str(page.older)}


@router.post(
    "/groups/{name}/scale-downs",
    response={201: answers.ScaleDownTold, 202: outcomes.PlanMade},
    url_name="scale_downs",
    operation_id="start_scale_down",
)
def start(request: HttpRequest, name: forms.GroupName, body: forms.NewScaleDown) -> Any:
    """Drains members of a stateful group: they leave when others have learned their state. 202: the
    plan waits for another's approval.
    """
    says_limit = "timeout_ms" in body.model_fields_set
    found = at_once.drain(
        current(name, body),
        doors.by(request, body.reason),
        percent=body.percent,
        members=body.members,
        timeout_ms=body.timeout_ms if says_limit else actions.FROM_SETTINGS,
        at_deadline=body.at_deadline,
        eager=body.eager,
        force_all=body.force_all,
    )
    return made(found) if isinstance(found, Plan) else Status(201, _told(request, found))


@router.post(
    "/groups/{name}/scale-downs/preview",
    response=answers.PreviewTold,
    url_name="preview",
    operation_id="preview_scale_down",
)
def preview(request: HttpRequest, name: forms.GroupName, body: forms.Leavers) -> Any:
    """Who would leave now; changes nothing."""
    return previews.preview(
        group_named(name), percent=body.percent, members=body.members, force_all=body.force_all
    )


@router.get(
    "/groups/{name}/scale-downs/{int:pk}",
    response=answers.ScaleDownTold,
    url_name="scale_down",
    operation_id="read_scale_down",
)
def scale_down(request: HttpRequest, name: forms.GroupName, pk: forms.Key) -> Any:
    """One scale-down and how far it has come."""
    return _told(request, _found(group_named(name), pk))


@router.post(
    "/groups/{name}/scale-downs/{int:pk}/extend",
    response=answers.ScaleDownTold,
    url_name="extend",
    operation_id="extend_scale_down",
)
def extend(
    request: HttpRequest, name: forms.GroupName, pk: forms.Key, body: forms.Extension
) -> Any:
    """A longer limit, from the moment the members were told."""
    row = _found(current(name, body), pk)
    return _told(request, actions.extend(row, body.timeout_ms, doors.by(request, body.reason)))


@router.post(
    "/groups/{name}/scale-downs/{int:pk}/force",
    response=answers.ScaleDownTold,
    url_name="force",
    operation_id="force_member",
)
def force(request: HttpRequest, name: forms.GroupName, pk: forms.Key, body: forms.Forced) -> Any:
    """Forces one of its members out now."""
    row = _found(current(name, body), pk)
    return _told(request, actions.force(row, body.member, doors.by(request, body.reason)))


@router.post(
    "/groups/{name}/scale-downs/{int:pk}/abort",
    response=answers.ScaleDownTold,
    url_name="abort",
    operation_id="abort_scale_down",
)
def abort(request: HttpRequest, name: forms.GroupName, pk: forms.Key, body: forms.OfGroup) -> Any:
    """Who is still here stays."""
    row = _found(current(name, body), pk)
    return _told(request, actions.abort(row, doors.by(request, body.reason)))
