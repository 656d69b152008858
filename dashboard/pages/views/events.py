"""Events of one partition around an offset, read only."""

import json
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from assignment.bounds import shortened
from assignment.errors import InvalidInput
from dashboard.actions import events as actions
from dashboard.live.connection import StoreUnavailable
from dashboard.live.decoded import Entry
from dashboard.pages import amounts, texts
from dashboard.pages.views import base

EVENTS_SHOWN = 3  # of an entry, before it is opened
VALUE_SHOWN = 200  # characters; the API tells more


def partition_events(request: HttpRequest, name: str, number: int) -> HttpResponse:
    seen = base.see(name)
    if number >= seen.group.partitions:
        raise Http404(f"Group {name} has partitions 0 to {seen.group.partitions - 1}.")
    asked = base.Asked(request.GET)
    context = base.group_context(seen, "group_partitions")
    context |= {"number": number, "asked": asked, "look": None, "away": ""}
    place = _place(asked)
    if not asked.errors:
        try:
            found = actions.look(seen.group, number, place, base.by(request))
            group = seen.group.values
            context |= {
                "look": found,
                "kept_ms": group.events_kept_seconds * 1_000,
                "kept_size": amounts.exact_size(group.events_kept_bytes),
                "rows": [_row(entry, found) for entry in found.entries],
            }
        except StoreUnavailable as error:
            context["away"] = str(error)
    return base.show(request, "partition_events", context)


def _place(asked: base.Asked) -> actions.Where | None:
    try:
        return actions.where(
            offset=asked.text("offset"),
            time_ms=asked.moment("time"),
            before=asked.text("before"),
            after=asked.text("after"),
            edge=asked.choice("edge", ["", *actions.Edge], ""),
        )
    except InvalidInput as error:
        asked.errors.append(str(error))
        return None


def _row(entry: Entry, look: actions.Look) -> base.Context:
    """Of the table; signs that are not seen by their numbers."""
    events = [
        [(texts.visible(name), texts.visible(_text(value))) for name, value in event.items()]
        for event in entry.events
    ]
    return {
        "entry": entry,
        "events": events[:EVENTS_SHOWN],
        "more_events": events[EVENTS_SHOWN:],
        "raw": texts.visible(entry.raw),
        "at_ms": entry.entry_id.ms,
        "is_committed": entry.entry_id <= look.committed,
        "is_asked": look.asked is not None and entry.entry_id == look.asked,
        "more": 0 if entry.count is None else entry.count - len(entry.events),
    }


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shortened(text, VALUE_SHOWN)
