"""Turns the locks' events into tenures: each event once, in order, with its fence and time.

Idempotent by the stream's entry ids: the cursor moves in the transaction that stores the rows. A
missing number is recorded as a gap. Events are trimmed only when they are stored.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, starmap
from operator import attrgetter
from typing import TypeVar

from django.db import transaction

from assignment.bounds import WHOLE_MAX
from assignment.scripts.lock_events import LockEvent
from dashboard.coordinator import ownership
from dashboard.live import groups as live_groups
from dashboard.models import Group, HistoryGap, Tenure, TenureEnd
from dashboard.records import bulk

GAPS_MAX = 10  # rows at once, however often the numbers jump: then one for all that follow
EVENTS_KEPT = 100_000  # stored events that stay in Redis for whoever wants to check the history
EVENTS_BETWEEN = 1_000  # two looks at how many there are
ROWS_AT_ONCE = 500  # SQLite's limit of variables is 32,766, PostgreSQL plans long lists slowly
TABLE = Tenure._meta.db_table
FIELDS = (
    *("id", "number", "partition", "member_id", "fence"),
    *("started_ms", "ended_ms", "end", "refused_at_ms"),
)  # as _Row has them
NEW = FIELDS[1:]
FAR = f"SELECT events_cursor, last_event_seq FROM {Group._meta.db_table} WHERE id = %s"
CHANGING = {"ended_ms": "bigint", "end": "varchar", "refused_at_ms": "bigint"}
ENDS = frozenset(TenureEnd.values)
_new_of, _changing_of = attrgetter(*NEW), attrgetter(*CHANGING)

T = TypeVar("T")

log = logging.getLogger(__name__)


def store_events(group: Group) -> int:
    """How many events were stored, the oldest. Moves the group's cursor."""
    events = live_groups.events_after(group.name, group.events_cursor, live_groups.EVENTS_AT_ONCE)
    before = group.last_event_seq // EVENTS_BETWEEN
    stored = len(events) if events and store(group, events) else 0
    is_due = stored and group.last_event_seq // EVENTS_BETWEEN != before
    if is_due and group.values.trimming:
        live_groups.trim_events(group.name, group.events_cursor, EVENTS_KEPT)
    return stored


def store(group: Group, events: Sequence[LockEvent]) -> bool:
    """False when another process stored them meanwhile, or Redis may have lost them since they were
    read: its streams' ids go on above the position as it was then. What is known is read anew.
    """
    cursor, seq = events[-1].entry_id, events[-1].seq
    known = {"events_cursor": group.events_cursor, "incarnation": group.incarnation}
    with transaction.atomic():
        rows = Group.objects.filter(pk=group.pk, **known)
        mine = bool(rows.update(events_cursor=cursor, last_event_seq=seq))
        if mine:
            _note_gaps(group, events)
            maps = ownership.Maps(group)
            for some in maps.pieces(events):
                if ours := [event for event in some if _is_of(group, event)]:
                    _write(group, ours)
                    maps.keep(ours)
    if mine:
        group.events_cursor, group.last_event_seq = cursor, seq
    else:
        group.refresh_from_db(fields=["last_event_seq", *known])
    return mine


def bring_forward(group: Group) -> None:
    """The row says how far its history is by now, which other processes keep. Raises
    Group.DoesNotExist.
    """
    rows = bulk.fetched(FAR, (group.pk,))
    if not rows:
        raise Group.DoesNotExist(f"group {group.name!r} is gone")
    [(group.events_cursor, group.last_event_seq)] = rows


def _is_of(group: Group, event: LockEvent) -> bool:
    partition = event.partition
    return partition.stream == group.stream and partition.number < group.partitions


def _note_gaps(group: Group, events: Sequence[LockEvent]) -> None:
    last, gaps = group.last_event_seq, list[HistoryGap]()
    for event in events:
        if event.seq != last + 1:
            # A lower number: Redis lost its last writes and counts from before them again.
            lost = event.seq - last - 1 if event.seq > last else None
            if len(gaps) < GAPS_MAX:
                gaps.append(HistoryGap(group=group, at_ms=event.at_ms, events_lost=lost))
            else:
                gaps[-1].events_lost = _sum(gaps[-1].events_lost, lost)
        last = event.seq
    HistoryGap.objects.bulk_create(gaps)
    for gap in gaps:
        log.error("history gap group=%s at_ms=%d lost=%s", group.name, gap.at_ms, gap.events_lost)


def _sum(before: int | None, lost: int | None) -> int | None:
    """None: nobody can know."""
    return None if before is None or lost is None else min(before + lost, WHOLE_MAX)


@dataclass(slots=True)
class _Row:
    """A tenure; `pk` None: not stored yet."""

    pk: int | None
    number: int
    partition: str
    member_id: str
    fence: int
    started_ms: int
    ended_ms: int | None = None
    end: str | None = None
    refused_at_ms: int | None = None

    def began(self) -> tuple[int, int]:
        return self.started_ms, self.fence

    @property
    def key(self) -> tuple[str, int]:
        return self.partition, self.fence

    def apply(self, event: LockEvent) -> bool:
        """Whether it changed. `acquired` again is the same grant: nothing."""
        if event.kind == "fenced" and self.refused_at_ms is None:
            self.refused_at_ms = event.at_ms
            return True
        if event.kind in ENDS and self.end is None:
            self.close(event.at_ms, event.kind)
            return True
        return False

    def close(self, at_ms: int, end: str | None) -> None:
        self.ended_ms, self.end = max(at_ms, self.started_ms), end


def _write(group: Group, events: Sequence[LockEvent]) -> None:
    open_by_number = _open(group, {event.partition.number for event in events})
    known = {row.key: row for row in open_by_number.values()}
    keys = [(str(event.partition), event.fence) for event in events]
    known |= {row.key: row for row in _stored(group, set(keys) - known.keys())}
    changed: dict[tuple[str, int], _Row] = {}
    for event, key in zip(events, keys, strict=True):
        row, number = known.get(key), event.partition.number
        if row is None and event.kind == "acquired":
            if before := open_by_number.get(number):
                # Its own end was lost: this is the latest it can be.
                before.close(event.at_ms, None)
                changed[before.key] = before
            made = _Row(None, number, *key[:1], event.member_id, event.fence, event.at_ms)
            known[key] = changed[key] = open_by_number[number] = made
        elif row is not None and row.apply(event):
            changed[key] = row
            if row.ended_ms is not None and open_by_number.get(number) is row:
                del open_by_number[number]
    old = [row for row in changed.values() if row.pk is not None]
    new = [row for row in changed.values() if row.pk is None]
    bulk.update(TABLE, CHANGING, ((row.pk or 0, *_changing_of(row)) for row in old))
    bulk.insert(TABLE, ("group_id", *NEW), ((group.pk, *_new_of(row)) for row in new))


def _open(group: Group, numbers: set[int]) -> dict[int, _Row]:
    """Partition number -> its tenure without an end; the oldest, if there should be more."""
    columns, found = ", ".join(f'"{name}"' for name in FIELDS), list[_Row]()
    for some in _parts(numbers):
        text = (
            f"SELECT {columns} FROM {TABLE} WHERE group_id = %s AND ended_ms IS NULL"
            f" AND number IN ({', '.join(['%s'] * len(some))})"
        )
        found += starmap(_Row, bulk.fetched(text, [group.pk, *some]))
    return {row.number: row for row in sorted(found, key=_Row.began, reverse=True)}


def _stored(group: Group, keys: Collection[tuple[str, int]]) -> Iterator[_Row]:
    """Tenures by partition and fence: those that ended, and grants that were stored already."""
    columns = ", ".join(f't."{name}"' for name in FIELDS)
    for some in _parts(keys):
        pairs = ", ".join(["(%s, %s)"] * len(some))
        # Joined in this order SQLite looks up each by the index; IN would read the whole group.
        text = (
            f"WITH asked (partition, fence) AS (VALUES {pairs}) SELECT {columns}"
            f" FROM asked CROSS JOIN {TABLE} t"
            " WHERE t.group_id = %s AND t.partition = asked.partition AND t.fence = asked.fence"
        )
        asked = [*(part for key in some for part in key), group.pk]
        yield from starmap(_Row, bulk.fetched(text, asked))


def _parts(of: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(of)
    while some := list(islice(rest, ROWS_AT_ONCE)):
        yield some
