"""Dead letters of a group: looked at, and discarded; both are audited."""

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Schema
from pydantic import ConfigDict, Field

from assignment.errors import InvalidInput
from assignment.scripts.dead_letters import TEXT_MAX, LetterId
from dashboard.actions import dead_letters as actions
from dashboard.api.v1 import doors, forms
from dashboard.api.v1.commands import current
from dashboard.api.v1.reading import group_named, router

Containing = Annotated[
    str, Field(max_length=forms.TEXT_MAX, description="What their reason contains.")
]
LetterText = Annotated[
    str, Field(max_length=TEXT_MAX, description="partition/id, as `letter` says it.")
]


class LettersAsked(Schema):
    partition: forms.Whole | None = None
    reason: Containing = ""
    cursor: LetterText = ""
    limit: Annotated[int, Field(ge=1, le=actions.SHOWN_MAX)] = actions.SHOWN


class Found(Schema):
    model_config = ConfigDict(extra="forbid")

    partition: forms.Whole | None = None
    reason: Containing = ""
    until_ms: Annotated[
        forms.Whole | None, Field(description="None that was kept later: `at_ms` of the look.")
    ] = None


class DiscardAsked(forms.OfGroup):
    """One of both."""

    letters: Annotated[list[LetterText], Field(max_length=actions.DISCARD_MAX)] | None = None
    found: Annotated[
        Found | None,
        Field(description=f"All of these, at most {actions.DISCARD_MAX}; {{}}: of the group."),
    ] = None


class LetterTold(Schema):
    letter: str
    partition: int
    kept_at_ms: int
    reason: str
    entry: str
    index: Annotated[int | None, Field(description="Of the event in its entry.")]
    size: Annotated[int, Field(description="Bytes that are kept of it.")]
    raw: Annotated[str | None, Field(description="Its beginning; null: fields are masked.")]


class LettersTold(Schema):
    at_ms: int
    kept: Annotated[
        dict[str, int], Field(description="By partition, whatever their reason; not those with 0.")
    ]
    masked: list[str]
    next: Annotated[str | None, Field(description="To be asked as `cursor`; null: the end.")]
    letters: list[LetterTold]


class DiscardedTold(Schema):
    letters: Annotated[list[str], Field(description="Those that were there until now.")]
    more: Annotated[bool, Field(description="There may be others that were meant: ask again.")]


@router.get(
    "/groups/{name}/dead-letters",
    response=LettersTold,
    url_name="dead_letters",
    operation_id="look_at_dead_letters",
)
def look(request: HttpRequest, name: forms.GroupName, asked: Query[LettersAsked]) -> Any:
    """What could not be read, or was skipped: partition by partition, of each the newest first.
    Audited.
    """
    which = actions.Which(number=asked.partition, reason=asked.reason)
    below = LetterId.parse(asked.cursor) if asked.cursor else None
    by = doors.by(request)
    found = actions.look(group_named(name), which, by, below=below, most=asked.limit)
    return {
        "at_ms": found.at_ms,
        "kept": {str(p.number): count for p, count in found.counts.items()},
        "masked": list(found.masked),
        "next": None if found.next is None else str(found.next),
        "letters": [_letter(one) for one in found.letters],
    }


def _letter(letter: actions.Letter) -> dict[str, Any]:
    kept = letter.kept
    return {
        "letter": str(kept.name),
        "partition": kept.name.number,
        "kept_at_ms": kept.name.at.ms,
        **{name: getattr(kept, name) for name in ("reason", "entry", "index", "size")},
        "raw": letter.text,
    }


@router.post(
    "/groups/{name}/dead-letters/discard",
    response=DiscardedTold,
    url_name="discard",
    operation_id="discard_dead_letters",
)
def discard(request: HttpRequest, name: forms.GroupName, body: DiscardAsked) -> Any:
    """For good; those that are gone already are passed over."""
    if (body.letters is None) == (body.found is None):
        raise InvalidInput("letters and found: one of them")
    group, by = current(name, body), doors.by(request, body.reason)
    if body.found is None:
        chosen = [LetterId.parse(text) for text in body.letters or ()]
        done = actions.discard(group, chosen, by)
    else:
        found = body.found
        which = actions.Which(number=found.partition, reason=found.reason, until_ms=found.until_ms)
        done = actions.discard_found(group, which, by)
    return {"letters": [str(one) for one in done.letters], "more": done.more}
