"""Dead letters of a group: looked at, discarded, asked to be replayed; all of it is audited."""

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Schema
from pydantic import ConfigDict, Field

from assignment.errors import InvalidInput
from assignment.scripts.dead_letters import TEXT_MAX, WAITING_MAX, LetterId, Replay
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


class LettersMeant(forms.OfGroup):
    """One of both."""

    letters: Annotated[list[LetterText], Field(max_length=actions.AT_ONCE_MAX)] | None = None
    found: Annotated[
        Found | None,
        Field(description=f"All of these, at most {actions.AT_ONCE_MAX}; {{}}: of the group."),
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
    asked_by: Annotated[
        str | None, Field(description="Who asked that it be replayed, for which it waits.")
    ]
    replayable: Annotated[
        bool,
        Field(
            description="False: an offset was set back, or Redis lost writes, since it was kept:"
            " its event may be read again, or may have been replayed."
        ),
    ]


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
    waiting: Annotated[int, Field(description="So many wait to be replayed, and stay.")]
    more: Annotated[bool, Field(description="There may be others that were meant: ask again.")]


class ReplayTold(Schema):
    letters: Annotated[list[str], Field(description="Those that wait from now on.")]
    waiting: Annotated[int, Field(description="So many waited before.")]
    gone: int
    full: Annotated[
        int,
        Field(description=f"So many were too many: {WAITING_MAX} of a partition wait at most."),
    ]
    doubted: Annotated[int, Field(description="So many are not `replayable`.")]
    more: Annotated[
        bool, Field(description="There may be others that were meant: ask when these are replayed.")
    ]


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
        "asked_by": kept.asked_by or None,
        "replayable": kept.is_sure,
    }


@router.post(
    "/groups/{name}/dead-letters/discard",
    response=DiscardedTold,
    url_name="discard",
    operation_id="discard_dead_letters",
)
def discard(request: HttpRequest, name: forms.GroupName, body: LettersMeant) -> Any:
    """For good; those that are gone already are passed over."""
    group, by = current(name, body), doors.by(request, body.reason)
    meant = _meant(body)
    if isinstance(meant, actions.Which):
        done = actions.discard_found(group, meant, by)
    else:
        done = actions.discard(group, meant, by)
    letters = [str(one) for one in done.letters]
    return {"letters": letters, "waiting": done.waiting, "more": done.more}


@router.post(
    "/groups/{name}/dead-letters/replay",
    response=ReplayTold,
    url_name="replay",
    operation_id="replay_dead_letters",
)
def replay(request: HttpRequest, name: forms.GroupName, body: LettersMeant) -> Any:
    """Inside this group only, once, by the consumers of their owners: with one of the next batches,
    of what is neither paused nor halted. Each is gone then, or a new letter that says why it cannot
    be read.
    """
    group, by = current(name, body), doors.by(request, body.reason)
    meant = _meant(body)
    if isinstance(meant, actions.Which):
        done = actions.replay_found(group, meant, by)
    else:
        done = actions.replay(group, meant, by)
    others = {
        name: done.others.get(what, 0)
        for name, what in (
            ("waiting", Replay.WAITS),
            ("gone", Replay.GONE),
            ("full", Replay.FULL),
            ("doubted", Replay.DOUBTED),
        )
    }
    return {"letters": [str(one) for one in done.letters], **others, "more": done.more}


def _meant(body: LettersMeant) -> actions.Which | list[LetterId]:
    """What a filter finds, or letters by name."""
    if (body.letters is None) == (body.found is None):
        raise InvalidInput("letters and found: one of them")
    if (found := body.found) is not None:
        return actions.Which(number=found.partition, reason=found.reason, until_ms=found.until_ms)
    return [LetterId.parse(text) for text in body.letters or ()]
