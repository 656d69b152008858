"""Rows of all groups as ticks have them: a number for what a tick decides by, of each, and which
groups have something open that a tick may have to do with.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from django.db.models import TextField
from django.db.models.functions import Cast

from assignment.coordinator.facts import GroupRecord
from dashboard.coordinator.carrying import AWAY, record_of
from dashboard.coordinator.records import OPEN
from dashboard.live import groups as live_groups
from dashboard.live.connection import StoreUnavailable
from dashboard.live.together import Question
from dashboard.models import Group, Plan, PlanState, RebalanceRequest, ScaleDown, ScaleDownState
from dashboard.records import bulk, deciding
from dashboard.records.planned import WAITING
from dashboard.records.queries import plans

AT_ONCE = 50  # rows by their keys: no more than are looked at in one go
ROWS_MAX = 20_000  # of which the number is known, some kilobytes each
SETTINGS = "settings"
COLUMNS = *(name for name in deciding.COLUMNS if name != SETTINGS), "settings_text"
READ_S = 10.0  # whoever writes beside the models says nothing


def _of(states: Iterable[str]) -> str:
    return ", ".join(f"'{state}'" for state in states)


ASKING = f"""
SELECT group_id FROM (
SELECT group_id FROM {RebalanceRequest._meta.db_table} WHERE state IN ({_of(OPEN)}) UNION
SELECT group_id FROM {ScaleDown._meta.db_table} WHERE state = '{ScaleDownState.RUNNING}' UNION
SELECT group_id FROM {Plan._meta.db_table} WHERE state = '{PlanState.RUNNING}'
 OR (state IN ({_of(WAITING)}) AND expires_at_ms <= %(now)s)
) asking
"""

Asking = frozenset[int]  # keys of groups
_notes = ThreadPoolExecutor(1, thread_name_prefix="notes")

log = logging.getLogger(__name__)


class Row(NamedTuple):
    """Of a group in the database. `digest` None: that is away."""

    pk: int
    incarnation: int
    digest: int | None


def connect() -> None:
    """Of this process' changes the tickers hear."""
    deciding.changed.connect(_note_change)


def _note_change(**_: Any) -> None:
    try:
        live_groups.note_rows_changed()
    except StoreUnavailable as error:
        log.warning("a change of a group's row waits for its turn: %s", error)


class Rows:
    """Of all groups, as a ticker has them from round to round."""

    def __init__(self) -> None:
        self._found: Mapping[str, Row] = {}
        self._version: int | None = None  # None: they are not of the database
        self._read_s = 0.0
        self._newest: Question[int] | None = None

    def asked(self) -> list[Question[Any]]:
        """What says whether they are still the same, of the moment when it is asked."""
        self._newest = live_groups.rows_version()
        return [self._newest]

    def __call__(self) -> tuple[Mapping[str, Row], Asking]:
        """As `read_rows`. Raises StoreUnavailable."""
        newest, self._newest = self._newest or live_groups.rows_version(), None
        version = newest.answer()
        is_fresh = time.monotonic() - self._read_s < READ_S
        if version == self._version and is_fresh:
            with suppress(*AWAY):
                return self._found, _asking()
        began_s = time.monotonic()
        self._found, asking = read_rows(note=_note_beside)
        self._read_s = began_s
        is_of_database = all(row.digest is not None for row in self._found.values())
        self._version = version if is_of_database else None
        return self._found, asking


def _note_beside(groups: Mapping[str, int]) -> None:
    """The round does not wait for it."""

    def note() -> None:
        try:
            live_groups.note_groups(groups)
        except StoreUnavailable as error:
            log.warning("ticks without a database would not know all groups: %s", error)

    _notes.submit(note)


def read_rows(
    only: str | None = None, *, note: Callable[[Mapping[str, int]], None] = live_groups.note_groups
) -> tuple[dict[str, Row], Asking]:
    """All groups or this one, and which of them have something open that a tick may have to do
    with. While the database is away, those that it had; Redis knows their settings. `note`: keeps
    all groups, with their incarnations, for that time.
    """
    try:
        found = Group.objects.annotate(settings_text=Cast(SETTINGS, TextField()))
        if only is not None:
            found = found.filter(name=only)
        rows = {one[1]: _row(one) for one in found.values_list("pk", "name", *COLUMNS)}
        asking = _asking(*(row.pk for row in rows.values() if only is not None))
    except AWAY as error:
        log.warning("ticks go on without the database: %s", error)
        known = sorted(live_groups.known_groups().items())
        mine = [one for one in known if only in (None, one[0])]
        return {name: Row(0, incarnation, None) for name, incarnation in mine}, frozenset()
    if only is None:
        note({name: row.incarnation for name, row in rows.items()})
    elif only in rows:
        live_groups.note_group(only, rows[only].incarnation)
    return rows, asking


@lru_cache(ROWS_MAX)
def _row(columns: tuple[Any, ...]) -> Row:
    """Mostly it is the same again."""
    return Row(columns[0], columns[2], crc32(repr(columns).encode()))


def _asking(only: int | None = None) -> Asking:
    """Of these groups each tick has to do with what a person asked for, or with a plan's time. All
    such, or at most this one.
    """
    text = ASKING if only is None else f"{ASKING} WHERE group_id = %(only)s"
    return frozenset(pk for (pk,) in bulk.fetched(text, {"now": plans.now_ms(), "only": only}))


def is_asking(pk: int) -> bool:
    """Whether something of this group is open that somebody asked for; also while nobody knows."""
    try:
        return bool(_asking(pk))
    except AWAY:
        return True


def loaded(
    names: Sequence[str], rows: Mapping[str, Row]
) -> Iterator[tuple[str, GroupRecord, Group | None]]:
    """In their order."""
    if any(rows[name].digest is None for name in names[:1]):
        yield from _without_database(names, rows)
        return
    for some in _parts(names):
        try:
            groups = {group.name: group for group in Group.objects.filter(name__in=some)}
        except AWAY as error:
            log.warning("ticks go on without the database: %s", error)
            yield from _without_database(some, rows)
            continue
        for name in some:
            if name in groups:
                yield name, record_of(groups[name]), groups[name]


def _without_database(
    names: Iterable[str], rows: Mapping[str, Row]
) -> Iterator[tuple[str, GroupRecord, None]]:
    for name in names:
        yield name, GroupRecord(name=name, settings=None, incarnation=rows[name].incarnation), None


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE))
