"""Looking at the events of a partition: a right of its own, and each look is audited."""

from dataclasses import dataclass
from enum import StrEnum

from assignment.errors import InvalidInput
from assignment.types import START, Offset, Partition
from dashboard.actions.access import require
from dashboard.actions.roles import Action
from dashboard.live import decoded, events
from dashboard.live import groups as live_groups
from dashboard.models import Group
from dashboard.records import audit
from dashboard.records.audit import By

ENTRIES_SHOWN = 20
ENTRIES_MAX = 50
BEFORE_SHOWN = 5  # entries before the offset that is looked around


LAST = Offset(2**64 - 1, 2**64 - 1)


class Edge(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


class Towards(StrEnum):
    AROUND = "around"
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Where:
    """Which entries: some before and then from `offset` on, only those before it, only those after
    it. None: from an edge of what is kept.
    """

    towards: Towards
    offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """`first`, `last`: of what is kept, and ever given. `older`, `newer`: where there are more.
    `asked`: the offset that was looked around.
    """

    partition: Partition
    committed: Offset
    first: Offset | None
    last: Offset | None
    length: int
    entries: tuple[decoded.Entry, ...]
    masked: tuple[str, ...]
    older: Offset | None
    newer: Offset | None
    asked: Offset | None


def where(
    *,
    offset: str = "",
    time_ms: int | None = None,
    before: str = "",
    after: str = "",
    edge: str = "",
) -> Where | None:
    """None: nothing was said. Raises InvalidInput: what cannot be read, and two at once."""
    found = []
    if offset:
        found.append(Where(Towards.AROUND, Offset.parse(offset)))
    if time_ms is not None:
        found.append(Where(Towards.AROUND, Offset(max(0, time_ms), 0)))
    if before:
        found.append(Where(Towards.BEFORE, Offset.parse(before)))
    if after:
        found.append(Where(Towards.AFTER, Offset.parse(after)))
    if edge:
        towards = Towards.AFTER if Edge(edge) is Edge.EARLIEST else Towards.BEFORE
        found.append(Where(towards))
    if len(found) > 1:
        raise InvalidInput("offset, time, before, after and edge: one of them at a time")
    return found[0] if found else None


@audit.attempted("look at events")
def look(
    group: Group, number: int, place: Where | None, by: By, *, most: int = ENTRIES_SHOWN
) -> Look:
    """Without a place around the group's committed offset. Raises Denied, StoreUnavailable."""
    require(by, Action.LOOK_AT_EVENTS, group)
    partition = Partition(group.stream, number)
    committed = Offset.parse(live_groups.committed(group.name, partition))
    place = place or Where(Towards.AROUND, committed)
    before, after = _read(partition, place, most)
    raw = (*before.entries, *after.entries)
    masked = frozenset(name.lower() for name in group.values.masked_fields)
    entries = tuple(decoded.decoded(one, masked) for one in raw)
    ids = [one.entry_id for one in raw]
    shown = {"from": str(ids[0]), "to": str(ids[-1])} if ids else {}
    audit.record(
        by, "look at events", group, object=str(partition), after={"entries": len(ids), **shown}
    )
    first, last = after.first, after.last
    return Look(
        partition=partition,
        committed=committed,
        first=first,
        last=last,
        length=after.length,
        entries=entries,
        masked=tuple(sorted(masked)),
        older=ids[0] if ids and first is not None and ids[0] > first else None,
        newer=ids[-1] if ids and last is not None and ids[-1] < last else None,
        asked=place.offset if place.towards is Towards.AROUND else None,
    )


def _read(partition: Partition, place: Where, most: int) -> tuple[events.Piece, events.Piece]:
    """What comes before the place, and what comes after it."""
    offset, nothing = place.offset, events.Piece(None, None, 0, ())
    match place.towards:
        case Towards.AFTER:
            return nothing, events.look(partition, _above(offset), "+", most)
        case Towards.BEFORE:
            return nothing, events.look(partition, "-", _below(offset), most, newest_first=True)
        case Towards.AROUND:
            few = min(BEFORE_SHOWN, most - 1)
            before = events.look(partition, "-", _below(offset), few, newest_first=True)
            left = most - len(before.entries)
            return before, events.look(partition, str(offset), "+", left)


def _below(offset: Offset | None) -> str:
    """As XRANGE takes it, which refuses what has nothing below; 0-0 is no entry."""
    return "+" if offset is None else f"({offset}" if offset > START else str(START)


def _above(offset: Offset | None) -> str:
    return "-" if offset is None else f"({offset}" if offset < LAST else "+"
