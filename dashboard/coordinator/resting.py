"""Which groups a tick looks at: those that do not rest (assignment.coordinator.resting), by what
Redis and the database say of all of them at once; now and then also one that does.

What is kept of a look is valid whoever made it, and however old: it names all that it depends on.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from django.db.models import F, Q, TextField
from django.db.models.functions import Cast

from assignment.coordinator.facts import GroupRecord
from assignment.coordinator.resting import Looked, Rest, may_rest_on
from assignment.scripts.group_read import NO_TICK, Ticker
from dashboard.coordinator.carrying import AWAY, record_of
from dashboard.coordinator.records import OPEN
from dashboard.live import glances
from dashboard.live import groups as live_groups
from dashboard.models import Group, Plan, PlanState, RebalanceRequest, ScaleDown, ScaleDownState
from dashboard.records.planned import WAITING

# A look that nothing asked for: so what nobody marked costs time, and no more. Such looks take
# about this share of one processor.
UNASKED_SHARE = 0.005
UNASKED_LEAST_MS, UNASKED_MOST_MS = 30_000, 600_000
AT_ONCE = 500  # rows by their keys
ROWS_MAX = 20_000  # of which the number is known, some kilobytes each
COLUMNS = (
    *("incarnation", "coordination", "mode_incarnation", "mode_epoch", "pause_version"),
    *("scale_downs_version", "settings_text"),
)  # by which a tick decides

log = logging.getLogger(__name__)


class _Row(NamedTuple):
    """Of a group in the database. `digest` None: that is away."""

    pk: int
    incarnation: int
    digest: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """`digest`: of the row then. `until_ms`: then it is looked at, asked or not."""

    rest: Rest
    digest: int
    until_ms: int


_read = msgspec.json.Decoder(_Kept).decode
_known: dict[str, tuple[bytes, _Kept]] = {}  # by group: mostly it is the same again


@dataclass(frozen=True, slots=True, kw_only=True)
class Awake:
    """A group to look at. `group` None: the database is away. `before`: by which it would rest on;
    None: there is reason to look.
    """

    record: GroupRecord
    group: Group | None
    digest: int | None
    before: Rest | None


class Resting:
    """All groups, over the rounds of one tick."""

    def __init__(self) -> None:
        self.groups: frozenset[str] = frozenset()
        self.away: frozenset[str] = frozenset()  # whose node of a Redis Cluster does not answer
        self._ticker = NO_TICK
        self._resting: dict[str, bytes] = {}  # to be kept
        self._awake: set[str] = set()  # of which something is kept

    def awake(self, ticker: Ticker) -> list[Awake]:
        """Groups to look at now, by their names. Raises StoreUnavailable."""
        self._ticker = ticker
        rows, asking = _rows()
        self.groups, self.away = frozenset(rows), glances.away(rows)
        rows = {name: row for name, row in rows.items() if name not in self.away}
        kept = _all_kept()
        self._awake |= kept.keys() - self.groups
        same = {
            name: kept[name].rest
            for name, row in rows.items()
            if name in kept and row.pk not in asking and row.digest in (None, kept[name].digest)
        }
        found = glances.glances(same)
        before = {
            name: same[name]
            for name, glance in found.items()
            if may_rest_on(same[name], glance, ticker.away)
        }
        due = [n for n in rows if n not in before or kept[n].until_ms <= ticker.seen_ms]
        self._awake |= kept.keys() & due
        return [
            Awake(record=record, group=group, digest=rows[name].digest, before=before.get(name))
            for name, record, group in _loaded(due, rows)
        ]

    def looked(self, one: Awake, looked: Looked, took_s: float) -> None:
        """What came of it: kept with `keep`."""
        name, rest = one.record.name, looked.rest
        if one.before is not None and looked.is_missed(one.before, self._ticker.away):
            log.error("group=%s had something to do that nothing marked", name)
            Group.objects.filter(name=name).update(missed_looks=F("missed_looks") + 1)
        if rest is None or one.digest is None:
            return
        until_ms = rest.looked_ms + _period_ms(name, took_s, len(self.groups))
        kept = _Kept(rest=rest, digest=one.digest, until_ms=until_ms)
        self._resting[name] = msgspec.json.encode(kept)

    def keep(self) -> None:
        """Raises StoreUnavailable."""
        glances.keep(self._resting, self._awake - self._resting.keys())
        self._resting, self._awake = {}, set()


def quiet() -> dict[str, int]:
    """Groups that rest and have no members -> the moment of the look after which they do. Raises
    StoreUnavailable.
    """
    rests = ((name, kept.rest) for name, kept in _all_kept().items())
    return {name: rest.looked_ms for name, rest in rests if not rest.patience_ms}


def _period_ms(name: str, took_s: float, groups: int) -> int:
    """Until the next look that nothing asks for; spread, so that they do not all come at once."""
    period_ms = took_s * 1_000 * groups / UNASKED_SHARE
    spread = 0.5 + crc32(name.encode()) / 2**33
    return round(min(max(period_ms, UNASKED_LEAST_MS), UNASKED_MOST_MS) * spread)


def _all_kept() -> dict[str, _Kept]:
    """What cannot be read any more is of another version."""
    stored = glances.kept()
    for name in [name for name in _known if name not in stored]:
        del _known[name]
    for name, text in stored.items():
        if name not in _known or _known[name][0] != text:
            try:
                _known[name] = text, _read(text)
            except msgspec.MsgspecError:
                _known.pop(name, None)
    return {name: kept for name, (_, kept) in _known.items()}


# --- the database ---------------------------------------------------------------------------------


def _rows() -> tuple[dict[str, _Row], frozenset[int]]:
    """All groups, and which of them have something open that a tick may have to do with. While the
    database is away, those that it had; Redis knows their settings.
    """
    try:
        found = Group.objects.annotate(settings_text=Cast("settings", TextField()))
        rows = {one[1]: _row(one) for one in found.values_list("pk", "name", *COLUMNS)}
        asking = _asking()
    except AWAY as error:
        log.warning("ticks go on without the database: %s", error)
        known = sorted(live_groups.known_groups().items())
        return {name: _Row(0, incarnation, None) for name, incarnation in known}, frozenset()
    live_groups.note_groups({name: row.incarnation for name, row in rows.items()})
    return rows, asking


@lru_cache(ROWS_MAX)
def _row(columns: tuple[Any, ...]) -> _Row:
    """Mostly it is the same again."""
    return _Row(columns[0], columns[2], crc32(repr(columns).encode()))


def _asking() -> frozenset[int]:
    """Of these groups each tick has to do with what a person asked for, or with a plan's time."""
    now_ms = live_groups.redis_now_ms()
    runs = Q(state=PlanState.RUNNING) | Q(state__in=WAITING, expires_at_ms__lte=now_ms)
    open_of = (
        RebalanceRequest.objects.filter(state__in=OPEN),
        ScaleDown.objects.filter(state=ScaleDownState.RUNNING),
        Plan.objects.filter(runs),
    )
    first, *others = (rows.order_by().values_list("group_id") for rows in open_of)
    return frozenset(pk for (pk,) in first.union(*others))


def _loaded(
    names: Sequence[str], rows: Mapping[str, _Row]
) -> Iterator[tuple[str, GroupRecord, Group | None]]:
    if any(rows[name].digest is None for name in names[:1]):
        yield from _without_database(names, rows)
        return
    try:
        groups = [group for some in _parts(names) for group in Group.objects.filter(name__in=some)]
    except AWAY as error:
        log.warning("ticks go on without the database: %s", error)
        yield from _without_database(names, rows)
        return
    for group in groups:
        yield group.name, record_of(group), group


def _without_database(
    names: Iterable[str], rows: Mapping[str, _Row]
) -> Iterator[tuple[str, GroupRecord, None]]:
    for name in names:
        yield name, GroupRecord(name=name, settings=None, incarnation=rows[name].incarnation), None


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE))
