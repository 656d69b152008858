"""Events of a partition, for people who may look at them; each look is audited."""

from typing import Annotated, Any

from django.http import Http404, HttpRequest
from ninja import Query, Schema
from pydantic import Field

from dashboard.actions import events as actions
from dashboard.api.v1 import doors, forms
from dashboard.api.v1.reading import group_named, moment, router
from dashboard.live.decoded import EVENTS_SHOWN


class EventsAsked(Schema):
    """One of them at most; without any: around the committed offset."""

    offset: Annotated[str, Field(max_length=forms.TEXT_MAX, description="Around this one.")] = ""
    time: forms.Moment = None
    before: Annotated[str, Field(max_length=forms.TEXT_MAX, description="Below this one.")] = ""
    after: Annotated[str, Field(max_length=forms.TEXT_MAX, description="Above this one.")] = ""
    edge: actions.Edge | None = None
    limit: Annotated[int, Field(ge=1, le=actions.ENTRIES_MAX, description="Entries at most.")] = (
        actions.ENTRIES_SHOWN
    )


class EntryTold(Schema):
    entry: str
    appended_at_ms: int
    committed: bool
    form: Annotated[str, Field(description="arrow, lines, json or fields.")]
    size: Annotated[int, Field(description="Bytes.")]
    count: Annotated[int | None, Field(description="Events in it; null: it cannot be read.")]
    events: Annotated[
        list[dict[str, Any]],
        Field(description=f"The first {EVENTS_SHOWN}, cut, without what is masked."),
    ]
    why: Annotated[str, Field(description="Why it cannot be read.")]
    raw: Annotated[str, Field(description="Its beginning then; empty where fields are masked.")]


class EventsTold(Schema):
    partition: str
    committed: str
    first: Annotated[str | None, Field(description="The oldest entry that is kept.")]
    last: Annotated[str | None, Field(description="The last id that the stream gave.")]
    kept: Annotated[int, Field(description="Entries in all.")]
    masked: list[str]
    older: Annotated[str | None, Field(description="To be asked as `before`; null: the end.")]
    newer: Annotated[str | None, Field(description="To be asked as `after`; null: the end.")]
    entries: list[EntryTold]


@router.get(
    "/groups/{name}/partitions/{int:number}/events",
    response=EventsTold,
    url_name="events",
    operation_id="look_at_events",
)
def events(
    request: HttpRequest, name: forms.GroupName, number: forms.Key, asked: Query[EventsAsked]
) -> Any:
    """Entries of a partition around an offset or a time, oldest first. Audited."""
    group = group_named(name)
    if number >= group.partitions:
        raise Http404(f"Group {name} has partitions 0 to {group.partitions - 1}.")
    place = actions.where(
        offset=asked.offset,
        time_ms=moment(asked.time),
        before=asked.before,
        after=asked.after,
        edge=asked.edge or "",
    )
    found = actions.look(group, number, place, doors.by(request), most=asked.limit)
    offsets = ("committed", "first", "last", "older", "newer")
    return {
        "partition": str(found.partition),
        **{name: _id(getattr(found, name)) for name in offsets},
        "kept": found.length,
        "masked": list(found.masked),
        "entries": [_entry(one, found) for one in found.entries],
    }


def _id(offset: Any) -> str | None:
    return None if offset is None else str(offset)


def _entry(entry: Any, found: actions.Look) -> dict[str, Any]:
    names = ("form", "size", "count", "events", "why", "raw")
    return {
        "entry": str(entry.entry_id),
        "appended_at_ms": entry.entry_id.ms,
        "committed": entry.entry_id <= found.committed,
        **{name: getattr(entry, name) for name in names},
    }
