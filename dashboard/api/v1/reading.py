"""What reads of the API have in common: the group, the moment, a piece of a list."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Router

from dashboard.actions.access import NO_GROUP
from dashboard.actions.roles import OF_NO_GROUP
from dashboard.api.v1 import doors
from dashboard.models import Group
from dashboard.pages.texts import parse_moment
from dashboard.records.queries import groups as group_queries
from dashboard.records.queries import known

Row = TypeVar("Row")
router = Router()  # one for all: Ninja finds a path in the first router that has it, and no further
OF_GROUPS = tuple(action for action in doors.SCOPES if action not in OF_NO_GROUP)


def group_named(name: str) -> Group:
    """Raises Http404. Whether it may be seen was asked at the door."""
    group = group_queries.find(name)
    if group is None:
        raise Http404(NO_GROUP.format(name))
    return group


def found_in(rows: Any, what: str, **key: Any) -> Any:
    """The row with that key. Raises Http404."""
    row = rows.filter(**key).first()
    if row is None:
        raise Http404(f"There is no such {what}.")
    return row


def now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)


def moment(text: str | None) -> int | None:
    """Raises InvalidInput."""
    return parse_moment(text) if text else None


def moment_of(group: Group, text: str | None) -> int | None:
    """As a moment of its history. Raises InvalidInput, also where it is kept no longer."""
    at_ms = moment(text)
    if at_ms is not None:
        known.check_kept(group, at_ms)
    return at_ms


def allowed(request: HttpRequest, group: str) -> list[str]:
    held = doors.rights_of(request)
    return [action.key for action in OF_GROUPS if held.may(action, group)]


def piece(rows: Sequence[Row], limit: int, key: Callable[[Row], Any]) -> dict[str, Any]:
    """Of rows that begin behind the cursor: the first `limit`."""
    shown = rows[:limit]
    return {"items": shown, "next": str(key(shown[-1])) if len(rows) > limit else None}


def behind(rows: Iterable[Row], cursor: Any, key: Callable[[Row], Any]) -> list[Row]:
    """Those after the cursor, of rows in ascending order of their keys."""
    return [row for row in rows if cursor is None or key(row) > cursor]
