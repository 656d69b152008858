"""The mirror of a group's offsets and snapshot records, for a Redis that lost them.

It never goes back: a Redis that came from a backup says older things until it is moved forward. Nor
does it believe a group more than the stream itself, whose ids all its groups share.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from django.db.models import Max

from assignment.coordinator import effects
from assignment.coordinator.facts import Mirror
from assignment.scripts.agent_side import (
    SnapshotRecord,
    is_snapshot_of,
    read_snapshots,
    record_of,
    record_values,
)
from assignment.scripts.group_read import UNREADABLE, GroupRead
from assignment.types import Offset, Partition, TargetRow
from dashboard.coordinator.snapshot_files import place_of
from dashboard.live import groups as live_groups
from dashboard.models import Group, PartitionMirror, Rebalance

AHEAD_MS = 60_000  # of Redis' clock: what is not above it any stream's ids reach by themselves

log = logging.getLogger(__name__)


def keep(group: Group, read: GroupRead) -> None:
    """What went on of offsets and snapshot records, into the database."""
    stored = {row.number: row for row in group.mirror.all()}
    changed = []
    for partition, offset in _believed(group, read).items():
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


def _believed(group: Group, read: GroupRead) -> Mapping[Partition, Offset]:
    """Redis holds what anybody wrote there: those of its partitions that its stream has come to. A
    forged one would lift the ids of a stream for all that read it, when it is made anew.
    """
    own = {
        partition: offset
        for partition, offset in read.offsets.items()
        if partition.stream == group.stream and partition.number < group.partitions
    }
    ahead = [p for p, offset in own.items() if offset.ms > read.now_ms + AHEAD_MS]
    if not ahead:
        return own
    last = live_groups.last_ids(ahead)  # later than the offsets were read, so not below them
    forged = {partition for partition in ahead if own[partition] > last[partition]}
    if forged:
        first = min(forged)
        log.warning(
            "group=%s says that it has committed %s of %s, which has come to %s: not believed (%d)",
            *(group.name, own[first], first, last[first], len(forged)),
        )
    return {partition: offset for partition, offset in own.items() if partition not in forged}


def _keep_newer(old: PartitionMirror, row: PartitionMirror) -> None:
    if Offset.parse(row.offset) < Offset.parse(old.offset):
        row.offset, row.total = old.offset, old.total
    before, now = _records(old), _records(row)
    if before and (not now or now[0].rank < before[0].rank):
        row.snapshot = old.snapshot


def read(group: Group, effect: effects.ReadMirror) -> Mirror:
    snapshots, broken = {}, set()
    for row in group.mirror.all():
        partition = Partition(group.stream, row.number)
        if records := _with_manifest(_records(row), group.name, partition):
            whole = [r for r in records if _may_be_whole(r, group.name, partition)]
            snapshots[partition] = (whole or records)[0]
            if not whole:
                broken.add(partition)
    return Mirror(
        target_epoch=group.rebalances.aggregate(last=Max("target_epoch"))["last"] or 0,
        event_seq=group.last_event_seq,
        snapshots=snapshots,
        offsets=_highest(group.stream),
        target=_target(group.rebalances.first(), group.stream),
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
    rows = PartitionMirror.objects.filter(group__stream=stream).values_list("number", "offset")
    highest: dict[Partition, Offset] = {}
    for number, text in rows:
        partition, offset = Partition(stream, number), Offset.parse(text)
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


def _may_be_whole(record: SnapshotRecord, group: str, partition: Partition) -> bool:
    """False: its folder is seen from here, and it is not there; or no agent would open it."""
    if "://" not in record.url and not is_snapshot_of(record.url.split("/")[-3:], group, partition):
        return False
    place = place_of(record, group, partition)
    return place is None or place.may_have(record)
