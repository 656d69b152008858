"""Stores maps of ownership while history is kept, in its transaction: often enough that a map at
any moment is one of them and a bounded number of changes.

A map is stored when an epoch ended and some partitions changed hands since the last one, and
whenever many did: locks change without epochs.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from assignment import ownership
from assignment.scripts.lock_events import LockEvent
from dashboard.models import Group, StoredMap
from dashboard.records import bulk
from dashboard.records.queries import ownership as queries

# Events between two maps. To store one costs what some thousand events cost, and grows with the
# partitions; to apply that many changes costs what reading the map does.
EVENTS_MIN = 500
PARTITIONS_PER_EVENT = 40
EPOCH_SHARE = 10  # of them that make an epoch's end worth a map
NEWEST = f"""
SELECT at_ms, seq FROM {StoredMap._meta.db_table} WHERE group_id = %s
ORDER BY at_ms DESC, id DESC LIMIT 1
"""


def events_between(group: Group) -> int:
    return max(EVENTS_MIN, group.partitions // PARTITIONS_PER_EVENT)


class _Newest(NamedTuple):
    """When the newest map is of, and the last event that it knows."""

    at_ms: int
    seq: int


class Maps:
    """Of one group, for a transaction in which nobody else stores any."""

    def __init__(self, group: Group) -> None:
        self._group = group
        rows = bulk.fetched(NEWEST, (group.pk,))
        self._newest = _Newest(*rows[0]) if rows else None

    def pieces(self, events: Sequence[LockEvent]) -> Iterator[Sequence[LockEvent]]:
        """Cut where the next map is due; `keep` is called after each."""
        most = first = events_between(self._group)
        if self._newest:
            first -= max(0, events[0].seq - 1 - self._newest.seq)
        cut = min(max(first, 1), len(events))
        yield events[:cut]
        for start in range(cut, len(events), most):
            yield events[start : start + most]

    def keep(self, events: Sequence[LockEvent]) -> None:
        """After `events` were written. A clock that went back is told by an event before the newest
        map's moment: maps later than that event are of another past.
        """
        times, seq = [event.at_ms for event in events], events[-1].seq
        at_ms = max(times)
        if self._newest and min(times) < self._newest.at_ms:
            at_ms = max(at_ms, self._newest.at_ms)
            self._group.maps.filter(at_ms__gt=min(times)).delete()
            self._store(at_ms, seq)
        elif self._newest is None or self._is_due(self._newest, seq):
            self._store(at_ms, seq)

    def _store(self, at_ms: int, seq: int) -> None:
        store(self._group, at_ms, seq)
        self._newest = _Newest(at_ms, seq)

    def _is_due(self, newest: _Newest, seq: int) -> bool:
        """A number below that of the newest map: Redis lost its last writes."""
        most, behind = events_between(self._group), seq - newest.seq
        if 0 <= behind < most // EPOCH_SHARE:
            return False
        return not 0 <= behind < most or _has_epoch_ended(self._group, newest.at_ms)


def _has_epoch_ended(group: Group, since_ms: int) -> bool:
    rows = group.rebalances.order_by("-at_ms").values_list("finished_at_ms", flat=True)
    ended_ms = rows.exclude(finished_at_ms=None).first()
    return ended_ms is not None and ended_ms > since_ms


def store(group: Group, at_ms: int, seq: int) -> None:
    """`at_ms`: no tenure that is stored begins or ends later."""
    found = queries.at(group, at_ms)
    group.maps.create(at_ms=at_ms, seq=seq, map=ownership.pack(found))


def begin_anew(group: Group, at_ms: int) -> None:
    """All tenures were ended at that moment, by Redis' new clock."""
    group.maps.filter(at_ms__gt=at_ms).delete()
    store(group, at_ms, group.last_event_seq)
