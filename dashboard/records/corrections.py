"""What the database has of a group and cannot be, and setting it right: for whoever repairs it."""

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from assignment.coordinator.repair import Kept
from assignment.plausible import AHEAD_MS, COUNTED_MAX, counted
from assignment.types import Partition
from dashboard.models import Group

TIMES = (
    *("rebalances at_ms", "rebalances finished_at_ms", "gaps at_ms", "samples at_ms"),
    *("rebalances ended_at_ms",),
    *("tenures started_ms", "tenures ended_ms", "tenures refused_at_ms"),
    *("member_records joined_at_ms", "member_records left_at_ms"),
)
ONE_EACH = ("samples", "member_records joined_at_ms")  # two of them cannot have the same time


def kept(group: Group, now_ms: int) -> Kept:
    times = {name: _wrong(group, name, now_ms).count() for name in TIMES}
    epochs = group.rebalances.filter(target_epoch__gt=COUNTED_MAX)
    rows = group.mirror.order_by("number").values_list("number", "offset")
    return Kept(
        incarnation=group.incarnation,
        event_seq=group.last_event_seq,
        target_epochs=set(epochs.values_list("target_epoch", flat=True)),
        mirror={f"{group.stream}:{number}": offset for number, offset in rows},
        times={name: number for name, number in times.items() if number},
    )


def correct(group: Group, key: str, names: Collection[str], now_ms: int, event_seq: int) -> None:
    """A time becomes the present one; `event_seq`: as far as Redis has counted. An offset becomes
    that of the newest snapshot; a later one comes with the next sample.
    """
    with transaction.atomic():
        match key:
            case "history":
                group.last_event_seq = counted(event_seq)
                group.save(update_fields=["last_event_seq"])
                group.gaps.create(at_ms=now_ms, events_lost=None)
            case "epochs":
                group.rebalances.filter(target_epoch__in=names).delete()
            case "mirror":
                for row in group.mirror.filter(number__in=_numbers(names)):
                    newest = (row.snapshot or [{"offset": "0-0", "total": 0}])[0]
                    row.offset, row.total = newest["offset"], int(newest["total"])
                    row.save(update_fields=["offset", "total"])
            case "times":
                for name in names:
                    _correct_times(group, name, now_ms)


def _numbers(partitions: Collection[str]) -> list[int]:
    return [Partition.parse(text).number for text in partitions]


def _correct_times(group: Group, name: str, now_ms: int) -> None:
    wrong = _wrong(group, name, now_ms)
    if name.startswith(ONE_EACH):
        wrong.delete()
    else:
        wrong.update(**{name.partition(" ")[2]: now_ms})
    if name.startswith("tenures"):
        group.maps.all().delete()  # they were made of these times


def _wrong(group: Group, name: str, now_ms: int) -> QuerySet[Any]:
    table, _, column = name.partition(" ")
    beyond = Q(**{f"{column}__gt": now_ms + AHEAD_MS}) | Q(**{f"{column}__lt": 0})
    found: QuerySet[Any] = getattr(group, table).filter(beyond)
    return found
