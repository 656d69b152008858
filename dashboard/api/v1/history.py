"""Reads of what happened: tenures of locks, rebalances with their rounds, the audit."""

from typing import Any

from django.http import HttpRequest
from ninja import Query

from dashboard.actions.roles import Action
from dashboard.api.v1 import answers, doors, forms
from dashboard.api.v1.reading import found_in, group_named, moment, router
from dashboard.models import Rebalance
from dashboard.records import audit as entries
from dashboard.records import chain
from dashboard.records.queries import rebalances as queries
from dashboard.records.queries import tenures as tenure_queries
from dashboard.records.queries.pages import Filters, Page, page_of
from dashboard.records.rights import narrowed_to


def filters(asked: forms.Between) -> Filters:
    """Raises InvalidInput."""
    named = asked.model_dump(exclude={"limit", "cursor", "from_", "to"})
    return Filters(
        **named, from_ms=moment(asked.from_), to_ms=moment(asked.to), before=asked.cursor
    )


def _told(page: Page[Any]) -> dict[str, Any]:
    return {"items": page.rows, "next": None if page.older is None else str(page.older)}


@router.get(
    "/groups/{name}/tenures",
    response=answers.PieceOf[answers.TenureTold],
    url_name="tenures",
    operation_id="list_tenures",
)
def tenures(request: HttpRequest, name: forms.GroupName, asked: Query[forms.TenuresAsked]) -> Any:
    """Who owned what, when, as the locks saw it; newest first. With `partition` its timeline."""
    rows = tenure_queries.found(group_named(name), filters(asked))
    return _told(page_of(rows, asked.limit))


@router.get(
    "/groups/{name}/rebalances",
    response=answers.PieceOf[answers.RebalanceLine],
    url_name="rebalances",
    operation_id="list_rebalances",
)
def rebalances(
    request: HttpRequest, name: forms.GroupName, asked: Query[forms.RebalancesAsked]
) -> Any:
    """Rebalances, newest first."""
    return _told(queries.page(group_named(name), filters(asked), asked.limit))


@router.get(
    "/groups/{name}/rebalances/{int:incarnation}/{int:target_epoch}",
    response=answers.RebalanceTold,
    url_name="rebalance",
    operation_id="read_rebalance",
)
def rebalance(
    request: HttpRequest,
    name: forms.GroupName,
    incarnation: forms.Key,
    target_epoch: forms.Key,
) -> Any:
    """One round by its epoch, with the rebalance that it belongs to."""
    rows = group_named(name).rebalances.select_related("first")
    row: Rebalance = found_in(rows, "rebalance", incarnation=incarnation, target_epoch=target_epoch)
    [whole] = queries.wholes([row.whole])
    names = ("state", "rounds", "moved", "avoidable", "total_ms", "first")
    return {
        **{name: getattr(whole, name) for name in names},
        "round": row,
        "every_round": queries.rounds_of(row.whole),
        "moves": row.moves(),
    }


@router.get(
    "/audit",
    response=answers.PieceOf[answers.AuditTold],
    url_name="audit",
    operation_id="list_audit",
)
def audit(request: HttpRequest, asked: Query[forms.AuditAsked]) -> Any:
    """The audit of the groups whose audit you may read; newest first."""
    found = entries.found(filters(asked))
    rows = narrowed_to(found, doors.rights_of(request), Action.READ_AUDIT, "group")
    return _told(page_of(rows, asked.limit, key="seq"))


@router.post(
    "/audit/verify",
    response=answers.Verified,
    url_name="audit_verify",
    operation_id="verify_audit",
)
def audit_verify(request: HttpRequest) -> Any:
    """Follows the audit's chain; on record."""
    found = chain.verify(chain.AT_ONCE)
    by = doors.by(request)
    entries.record(by, "verify audit", object="audit", result=found.sentence)
    return found
