"""The mirror of a group's offsets and snapshot records, for a Redis that lost them.

It never goes back: a Redis that came from a backup says older things until it is moved forward. So
nothing comes into it that cannot be: an offset lies within what its stream has had.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from django.db.models import Max

from assignment.coordinator import effects
from assignment.coordinator.facts import Mirror
from assignment.errors import InvalidInput
from assignment.plausible import COUNTED_MAX, counted, may_lift
from assignment.scripts.agent_side import (
    SnapshotRecord,
    is_snapshot_of,
    read_snapshots,
    record_of,
    record_values,
)
from assignment.scripts.group_read import GroupRead
from assignment.scripts.offsets import is_undone, is_undone_by
from assignment.scripts.rows import UNREADABLE, why_unreadable
from assignment.types import START, Offset, Partition, TargetRow
from dashboard.coordinator.snapshot_files import place_of
from dashboard.live import groups as live_groups
from dashboard.live.advance import Advance, StoredAdvance
from dashboard.models import Group, PartitionMirror, Rebalance

log = logging.getLogger(__name__)

_mirrored: dict[tuple[str, int], tuple[float, int]] = {}  # by group: when, and what it was
ANEW_S = 300.0  # what is as it was is kept anew then: somebody may have restored the database


def keep_changed(found_of: Iterable[tuple[Group, StoredAdvance]]) -> None:
    """Of those of which something went on since this process looked last."""
    now_s = time.monotonic()
    for group, found in found_of:
        if not any(found):
            continue  # nobody has begun
        key, digest = (group.name, group.pk), hash(found)
        kept_s, before = _mirrored.get(key, (-inf, 0))
        if before == digest and now_s - kept_s < ANEW_S:
            continue
        try:
            keep(group, found.read())
            _mirrored[key] = now_s, digest
        except UNREADABLE as error:
            log.error("offsets of group=%s are not mirrored: %s", group.name, why_unreadable(error))


def keep(group: Group, read: GroupRead | Advance) -> None:
    """What went on of offsets and snapshot records, into the database."""
    stored = {row.number: row for row in group.mirror.all()}
    changed = []
    for partition, offset in _committed(group, read, stored).items():
        row = PartitionMirror(
            group=group,
            number=partition.number,
            offset=str(offset),
            total=read.applied[partition].total if partition in read.applied else 0,
            snapshot=[*map(record_values, read.snapshots.get(partition, ()))] or None,
        )
        old = stored.get(partition.number)
        if old is not None:
            _keep_newer(old, row)
        if old is None or (old.offset, old.snapshot) != (row.offset, row.snapshot):
            changed.append(row)
    PartitionMirror.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["group", "number"],
        update_fields=["offset", "total", "snapshot"],
        batch_size=500,
    )


def _committed(
    group: Group, read: GroupRead | Advance, stored: Mapping[int, PartitionMirror]
) -> dict[Partition, Offset]:
    """Redis holds what anybody wrote there: those of the group's partitions that can be."""
    found = {
        partition: offset
        for partition, offset in read.offsets.items()
        if partition.stream == group.stream and partition.number < group.partitions
    }
    new = {p for p, offset in found.items() if offset != _offset(stored.get(p.number))}
    last = live_groups.last_ids(new) if new else {}
    return {
        partition: offset
        for partition, offset in found.items()
        if partition not in new or (may_lift(offset) and offset <= last.get(partition, START))
    }


def _offset(row: PartitionMirror | None) -> Offset | None:
    """None: nothing is known, or nothing that can be."""
    return None if row is None else offset_of(row.offset)


def offset_of(text: str) -> Offset | None:
    """Of a row; None when no stream may be lifted to it."""
    try:
        found = Offset.parse(text)
    except InvalidInput:
        return None
    return found if may_lift(found) else None


def _keep_newer(old: PartitionMirror, row: PartitionMirror) -> None:
    known = _offset(old)
    if known is not None and Offset.parse(row.offset) < known:
        row.offset, row.total = old.offset, old.total
    now = _records(row)
    before = [one for one in _records(old) if not (now and is_undone_by(one, now[0]))]
    if before and (not now or now[0].rank < before[0].rank):
        row.snapshot = old.snapshot


def read(group: Group, effect: effects.ReadMirror) -> Mirror:
    group.refresh_from_db(fields=["last_event_seq"])  # history is kept beside
    snapshots, broken = {}, set()
    jumps = _jumps(group)
    sound = group.rebalances.filter(target_epoch__lte=COUNTED_MAX)
    for row in group.mirror.all():
        partition = Partition(group.stream, row.number)
        records = _with_manifest(_records(row), group.name, partition)
        if records := _not_undone(records, jumps.get(row.number, ())):
            whole = [r for r in records if _may_be_whole(r, group.name, partition)]
            snapshots[partition] = (whole or records)[0]
            if not whole:
                broken.add(partition)
    return Mirror(
        target_epoch=sound.aggregate(last=Max("target_epoch"))["last"] or 0,
        event_seq=counted(group.last_event_seq),
        snapshots=snapshots,
        offsets=_highest(group.stream),
        target=_target(sound.first(), group.stream),
        broken=frozenset(broken),
    )


def _target(row: Rebalance | None, stream: str) -> dict[str, TargetRow]:
    def partitions(numbers: Iterable[int]) -> frozenset[Partition]:
        return frozenset(Partition(stream, number) for number in numbers)

    return {
        member: TargetRow(
            target_epoch=row.target_epoch,
            incarnation=row.incarnation,
            active=partitions(of["assigned"]),
            standby=partitions(of["standby"]),
            learning=partitions(of["learning"]),
        )
        for member, of in (row.roles.items() if row else ())
        if row and (of["assigned"] or of["standby"] or of["learning"])
    }


def _highest(stream: str) -> dict[Partition, Offset]:
    highest: dict[Partition, Offset] = {}
    for row in PartitionMirror.objects.filter(group__stream=stream).only("number", "offset"):
        partition, offset = Partition(stream, row.number), _offset(row)
        if offset is not None:
            highest[partition] = max(offset, highest.get(partition, offset))
    return highest


def _records(row: PartitionMirror) -> Sequence[SnapshotRecord]:
    return [*map(record_of, row.snapshot or ())]


def _with_manifest(
    records: Sequence[SnapshotRecord], group: str, partition: Partition
) -> Sequence[SnapshotRecord]:
    """The newest first, with those that lie beside the files, where this machine sees them."""
    found = set(records)
    for place in {p for r in records if (p := place_of(r, group, partition))}:
        try:
            found |= {*filter(place.holds, read_snapshots(place.manifest()))}
        except (OSError, *UNREADABLE):
            continue
    return sorted(found, key=lambda record: record.rank, reverse=True)


def _jumps(group: Group) -> dict[int, list[tuple[int, Offset]]]:
    """By partition number: fence and new offset of each time that a person set it."""
    found: dict[int, list[tuple[int, Offset]]] = {}
    for number, fence, after in group.offset_jumps.values_list("number", "fence", "after"):
        found.setdefault(number, []).append((fence, Offset.parse(after)))
    return found


def _not_undone(
    records: Sequence[SnapshotRecord], jumps: Sequence[tuple[int, Offset]]
) -> list[SnapshotRecord]:
    """Without those of what a person set back: to be moved forward there would undo that."""
    return [r for r in records if not any(is_undone(r, fence, to) for fence, to in jumps)]


def _may_be_whole(record: SnapshotRecord, group: str, partition: Partition) -> bool:
    """False: its folder is seen from here, and it is not there; or no agent would open it."""
    if "://" not in record.url and not is_snapshot_of(record.url.split("/")[-3:], group, partition):
        return False
    place = place_of(record, group, partition)
    return place is None or place.may_have(record)
