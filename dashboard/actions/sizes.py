"""How many bytes of state a change copies, where its snapshots' files are seen from here."""

from collections.abc import Iterable

from assignment.coordinator.record import Change
from assignment.scripts.group_read import GroupRead
from assignment.types import Partition
from dashboard.coordinator.snapshot_files import place_of


def state_bytes(group: str, view: GroupRead, change: Change) -> int | None:
    """Of the newest snapshots of all that somebody is to learn; None when one is not known."""
    sizes = [_size(group, view, partition) for partition in _learned(change)]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _learned(change: Change) -> Iterable[Partition]:
    return (move.partition for move in change.learning)


def _size(group: str, view: GroupRead, partition: Partition) -> int | None:
    records = view.snapshots.get(partition, ())
    for record in sorted(records, key=lambda record: record.rank, reverse=True)[:1]:
        place = place_of(record, group, partition)
        return None if place is None else place.size_of(record)
    return None
