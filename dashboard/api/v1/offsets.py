"""Committed offsets that people set: what would come of it, doing it, and the list."""

from typing import Annotated, Any

from django.http import Http404, HttpRequest
from ninja import Query, Schema
from pydantic import Field

from assignment.types import Offset
from dashboard.actions import offsets as actions
from dashboard.api.v1 import answers, doors, forms
from dashboard.api.v1.commands import current
from dashboard.api.v1.reading import group_named, moment, piece, router
from dashboard.models import Group


class OffsetWanted(forms.OfGroup):
    """`offset` with to=offset, `time` with to=time."""

    to: actions.To
    offset: Annotated[str | None, Field(max_length=forms.TEXT_MAX)] = None
    time: forms.Moment = None


class OffsetAsked(OffsetWanted):
    seen: Annotated[str, Field(max_length=forms.TEXT_MAX, description="Of the outlook, as read.")]


class JumpsAsked(forms.ByNumber):
    partition: Annotated[int, Field(ge=0, le=999_999)] | None = None


class OutlookTold(Schema):
    partition: str
    before: str
    after: str
    events: Annotated[int | None, Field(description="Between the two; null: nobody can tell.")]
    says: Annotated[list[str], Field(description="What becomes of state and of effects.")]
    refused: Annotated[str, Field(description="Why it cannot be set, with what is missing.")]
    state_oldest: Annotated[str | None, Field(description="From where on state can be built.")]
    seen: str


class JumpTold(Schema):
    at_ms: int
    number: int
    before: str
    after: str
    events: int | None
    fence: str
    actor: str
    reason: str


def _wanted(body: OffsetWanted) -> actions.Wanted:
    offset = None if body.offset is None else Offset.parse(body.offset)
    return actions.Wanted(body.to, offset, moment(body.time))


def _known(group: Group, number: int) -> None:
    if number >= group.partitions:
        raise Http404(f"Group {group.name} has partitions 0 to {group.partitions - 1}.")


@router.post(
    "/groups/{name}/partitions/{int:number}/offset/outlook",
    response=OutlookTold,
    url_name="offset_outlook",
    operation_id="preview_offset",
)
def outlook(
    request: HttpRequest, name: forms.GroupName, number: forms.Key, body: OffsetWanted
) -> Any:
    """What would come of it; changes nothing."""
    group = current(name, body)
    _known(group, number)
    found = actions.outlook(group, number, _wanted(body), doors.by(request, body.reason))
    oldest = found.facts.state_oldest
    return {
        **{name: str(getattr(found, name)) for name in ("partition", "before", "after")},
        "events": found.events,
        "says": [] if found.missing else list(found.says),
        "refused": found.refused,
        "state_oldest": None if oldest is None else str(oldest),
        "seen": found.seen,
    }


@router.post(
    "/groups/{name}/partitions/{int:number}/offset",
    response=JumpTold,
    url_name="offset",
    operation_id="set_offset",
)
def set_offset(
    request: HttpRequest, name: forms.GroupName, number: forms.Key, body: OffsetAsked
) -> Any:
    """Sets the committed offset of a partition that is paused, as an outlook showed it."""
    group = current(name, body)
    _known(group, number)
    by = doors.by(request, body.reason)
    return _told(actions.set_offset(group, number, _wanted(body), body.seen, by))


@router.get(
    "/groups/{name}/offset-jumps",
    response=answers.PieceOf[JumpTold],
    url_name="offset_jumps",
    operation_id="list_offset_jumps",
)
def jumps(request: HttpRequest, name: forms.GroupName, asked: Query[JumpsAsked]) -> Any:
    """Committed offsets that people set, when and why; the newest first."""
    group = group_named(name)
    rows = actions.jumps(group, asked.partition, asked.limit + 1, before=asked.cursor)
    found = piece(rows, asked.limit, lambda row: row.pk)
    return found | {"items": [_told(one) for one in found["items"]]}


def _told(jump: Any) -> dict[str, Any]:
    names = ("at_ms", "number", "before", "after", "events", "actor", "reason")
    return {name: getattr(jump, name) for name in names} | {"fence": str(jump.fence)}
