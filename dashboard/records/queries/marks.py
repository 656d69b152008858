"""What happened to a group over a time: rebalances, members that were lost, gaps in its history."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from assignment.coordinator.facts import StayEnd
from dashboard.models import Group

READ_MAX = 5_000  # of a kind, the newest
SLOTS = 120  # of the time: what falls into one is one mark


class MarkKind(StrEnum):
    REBALANCE = "rebalance"
    LOST = "lost"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """`what`: of the latest of `count`: the cause, the member, how many events are missing.
    `epoch`: of a rebalance's first round (incarnation, target epoch).
    """

    kind: MarkKind
    at_ms: int
    what: str
    epoch: tuple[int, int] | None = None
    count: int = 1


def marks(group: Group, from_ms: int, to_ms: int) -> list[Mark]:
    """In the order of time."""
    slot_ms = max(1, -(-(to_ms - from_ms) // SLOTS))
    kinds = (_rebalances(group, from_ms, to_ms), _lost(group, from_ms, to_ms))
    found = [
        mark
        for newest in (*kinds, _gaps(group, from_ms, to_ms))
        for mark in _joined(newest, from_ms, slot_ms)
    ]
    return sorted(found, key=lambda mark: mark.at_ms)


def _joined(newest: Iterable[Mark], from_ms: int, slot_ms: int) -> Iterable[Mark]:
    slots: dict[int, Mark] = {}
    for mark in newest:
        slot = (mark.at_ms - from_ms) // slot_ms
        known = slots.get(slot)
        slots[slot] = mark if known is None else replace(known, count=known.count + 1)
    return slots.values()


def _rebalances(group: Group, from_ms: int, to_ms: int) -> Iterable[Mark]:
    rows = group.rebalances.filter(first=None, at_ms__gte=from_ms, at_ms__lt=to_ms)
    found = rows.order_by("-at_ms").values_list("at_ms", "cause", "incarnation", "target_epoch")
    for at_ms, cause, incarnation, epoch in found[:READ_MAX]:
        yield Mark(kind=MarkKind.REBALANCE, at_ms=at_ms, what=cause, epoch=(incarnation, epoch))


def _lost(group: Group, from_ms: int, to_ms: int) -> Iterable[Mark]:
    rows = group.member_records.filter(
        end=StayEnd.LOST, left_at_ms__gte=from_ms, left_at_ms__lt=to_ms
    )
    found = rows.order_by("-left_at_ms").values_list("left_at_ms", "member_id")
    for at_ms, member in found[:READ_MAX]:
        yield Mark(kind=MarkKind.LOST, at_ms=at_ms or 0, what=member)


def _gaps(group: Group, from_ms: int, to_ms: int) -> Iterable[Mark]:
    rows = group.gaps.filter(at_ms__gte=from_ms, at_ms__lt=to_ms).exclude(events_lost=0)
    for at_ms, lost in rows.order_by("-at_ms").values_list("at_ms", "events_lost")[:READ_MAX]:
        yield Mark(kind=MarkKind.GAP, at_ms=at_ms, what="" if lost is None else str(lost))
