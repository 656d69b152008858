"""Tokens of a group's agents and of producers. A secret is told once and kept nowhere."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Status

from dashboard.actions import groups as actions
from dashboard.actions import producers
from dashboard.agents.producer_token import ProducerToken
from dashboard.api.v1 import answers, doors, forms, outcomes
from dashboard.api.v1.reading import found_in, group_named, router
from dashboard.models import AgentToken
from dashboard.records.queries.pages import page_of


def _until(days: int | None) -> datetime | None:
    return None if days is None else timezone.now() + timedelta(days=days)


def _page(rows: QuerySet[Any], asked: forms.ByNumber) -> dict[str, Any]:
    below = rows if asked.cursor is None else rows.filter(pk__lt=asked.cursor)
    page = page_of(below.order_by("-pk"), asked.limit)
    return {"items": page.rows, "next": None if page.older is None else str(page.older)}


def _made(token: AgentToken | ProducerToken, secret: str, told: type[Any]) -> Any:
    names = [name for name in told.model_fields if name != "secret"]
    return Status(201, {**{n: getattr(token, n) for n in names}, "secret": secret})


# --- of agents ------------------------------------------------------------------------------------


@router.get(
    "/groups/{name}/tokens",
    response=answers.PieceOf[outcomes.AgentTokenLine],
    url_name="tokens",
    operation_id="list_tokens",
)
def tokens(request: HttpRequest, name: forms.GroupName, asked: Query[forms.ByNumber]) -> Any:
    """Tokens of the group's agents, newest first."""
    return _page(AgentToken.objects.filter(group=group_named(name)), asked)


@router.post(
    "/groups/{name}/tokens",
    response={201: outcomes.MadeToken},
    url_name="tokens",
    operation_id="create_token",
)
def create(request: HttpRequest, name: forms.GroupName, body: forms.NewToken) -> Any:
    """A token that the group's agents show."""
    by = doors.by(request, body.reason)
    group = group_named(name)
    made = actions.create_token(group, by, name=body.name, expires_at=_until(body.days))
    return _made(made.token, made.text, outcomes.MadeToken)


def _of_group(name: str, pk: int) -> AgentToken:
    rows = AgentToken.objects.select_related("group").filter(group=group_named(name))
    row: AgentToken = found_in(rows, "token", pk=pk)
    return row


@router.post(
    "/groups/{name}/tokens/{int:pk}/rotate",
    response={201: outcomes.MadeToken},
    url_name="rotate",
    operation_id="rotate_token",
)
def rotate(request: HttpRequest, name: forms.GroupName, pk: forms.Key, body: forms.Command) -> Any:
    """Another of the same name and expiry; the old one is revoked."""
    made = actions.rotate_token(_of_group(name, pk), doors.by(request, body.reason))
    return _made(made.token, made.text, outcomes.MadeToken)


@router.delete(
    "/groups/{name}/tokens/{int:pk}",
    response=outcomes.AgentTokenLine,
    url_name="token",
    operation_id="revoke_token",
)
def revoke(request: HttpRequest, name: forms.GroupName, pk: forms.Key) -> Any:
    """Agents that use it are refused within a second."""
    return actions.revoke_token(_of_group(name, pk), doors.by(request))


# --- of producers ---------------------------------------------------------------------------------


@router.get(
    "/producer-tokens",
    response=answers.PieceOf[outcomes.ProducerTokenLine],
    url_name="producer_tokens",
    operation_id="list_producer_tokens",
)
def of_producers(request: HttpRequest, asked: Query[forms.ByNumber]) -> Any:
    """Tokens of producers, newest first."""
    return _page(ProducerToken.objects.all(), asked)


@router.post(
    "/producer-tokens",
    response={201: outcomes.MadeProducerToken},
    url_name="producer_tokens",
    operation_id="create_producer_token",
)
def create_of_producer(request: HttpRequest, body: forms.NewProducerToken) -> Any:
    """A token that appends to one stream, which a group reads."""
    by = doors.by(request, body.reason)
    until = _until(body.days)
    made = producers.create_token(body.stream, by, name=body.name, expires_at=until)
    return _made(made.token, made.text, outcomes.MadeProducerToken)


@router.delete(
    "/producer-tokens/{int:pk}",
    response=outcomes.ProducerTokenLine,
    url_name="producer_token",
    operation_id="revoke_producer_token",
)
def revoke_of_producer(request: HttpRequest, pk: forms.Key) -> Any:
    """Its connections end."""
    token: ProducerToken = found_in(ProducerToken.objects.all(), "token", pk=pk)
    return producers.revoke_token(token, doors.by(request))
