"""Turns the locks' events into tenures: each event once, in order, with its fence and time.

Idempotent by the stream's entry ids: the cursor moves in the transaction that stores the rows. A
missing number is recorded as a gap. Events are trimmed only when they are stored.
"""

import logging
from collections.abc import Sequence

from django.db import transaction

from assignment.bounds import WHOLE_MAX
from assignment.coordinator.tick import events_most
from assignment.scripts.lock_events import LockEvent
from dashboard.live import groups as live_groups
from dashboard.models import Group, HistoryGap, Tenure, TenureEnd

GAPS_MAX = 10  # rows at once, however often the numbers jump: then one for all that follow
EVENTS_KEPT = 100_000  # stored events that stay in Redis for whoever wants to check the history
FENCES_AT_ONCE = 500  # SQLite's limit of variables is 32,766, PostgreSQL plans long lists slowly

log = logging.getLogger(__name__)


def store_events(group: Group) -> int:
    """How many events were stored, the oldest. Moves the group's cursor."""
    most = min(live_groups.EVENTS_AT_ONCE, events_most(group.partitions))
    events = live_groups.events_after(group.name, group.events_cursor, most)
    stored = len(events) if events and store(group, events) else 0
    if stored and group.values.trimming:
        live_groups.trim_events(group.name, group.events_cursor, EVENTS_KEPT)
    return stored


def store(group: Group, events: Sequence[LockEvent]) -> bool:
    """False when another process stored them meanwhile; the cursor is read anew either way."""
    cursor, seq = events[-1].entry_id, events[-1].seq
    with transaction.atomic():
        rows = Group.objects.filter(pk=group.pk, events_cursor=group.events_cursor)
        mine = bool(rows.update(events_cursor=cursor, last_event_seq=seq))
        if mine:
            _note_gaps(group, events)
            _write(group, [event for event in events if _is_of(group, event)])
    if mine:
        group.events_cursor, group.last_event_seq = cursor, seq
    else:
        group.refresh_from_db(fields=["events_cursor", "last_event_seq"])
    return mine


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


def _write(group: Group, events: Sequence[LockEvent]) -> None:
    known = _stored(group, events)
    open_by_number = _open(group, {e.partition.number for e in events if e.kind == "acquired"})
    made: dict[tuple[int, int], Tenure] = {}
    changed: dict[tuple[int, int], Tenure] = {}
    for event in events:
        key = (event.partition.number, event.fence)
        tenure = made.get(key) or known.get(key)
        if event.kind == "acquired" and tenure is None:
            if before := open_by_number.get(event.partition.number):
                # Its own end was lost: this is the latest it can be.
                _end(before, event.at_ms, None)
                changed[before.number, before.fence] = before
            tenure = made[key] = _begun(group, event)
            open_by_number[event.partition.number] = tenure
        elif tenure is not None and _apply(tenure, event):
            changed[key] = tenure
            if event.kind != "fenced":
                open_by_number.pop(event.partition.number, None)
    Tenure.objects.bulk_create(made.values(), batch_size=FENCES_AT_ONCE)
    Tenure.objects.bulk_update(
        [t for key, t in changed.items() if key not in made],
        ["ended_ms", "end", "refused_at_ms"],
        batch_size=FENCES_AT_ONCE,
    )


def _begun(group: Group, event: LockEvent) -> Tenure:
    return Tenure(
        group=group,
        number=event.partition.number,
        partition=str(event.partition),
        member_id=event.member_id,
        fence=event.fence,
        started_ms=event.at_ms,
    )


def _apply(tenure: Tenure, event: LockEvent) -> bool:
    """Whether the tenure changed. `acquired` again is the same grant: nothing."""
    if event.kind == "fenced" and tenure.refused_at_ms is None:
        tenure.refused_at_ms = event.at_ms
        return True
    if event.kind in TenureEnd.values and tenure.end is None:
        _end(tenure, event.at_ms, event.kind)
        return True
    return False


def _end(tenure: Tenure, at_ms: int, end: str | None) -> None:
    tenure.ended_ms, tenure.end = max(at_ms, tenure.started_ms), end


def _stored(group: Group, events: Sequence[LockEvent]) -> dict[tuple[int, int], Tenure]:
    fences = sorted({event.fence for event in events})
    found: dict[tuple[int, int], Tenure] = {}
    for first in range(0, len(fences), FENCES_AT_ONCE):
        rows = Tenure.objects.filter(group=group, fence__in=fences[first : first + FENCES_AT_ONCE])
        found.update({(t.number, t.fence): t for t in rows})
    return found


def _open(group: Group, numbers: set[int]) -> dict[int, Tenure]:
    """Tenures without an end, of partitions that are acquired anew."""
    rows = Tenure.objects.filter(group=group, ended_ms=None)
    return {t.number: t for t in rows if t.number in numbers}
