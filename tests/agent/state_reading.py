"""What tests write into a partition's state and read of it."""

from collections.abc import Iterable
from typing import Any

from agent.state.partition import PartitionState
from agent.state.restore import ChangelogReader, restore
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import START, Offset, Partition
from assignment.wire import ChangelogEntry, ChangelogPage, pack_changes

PARTITION = Partition("flights", 3)


def entry(
    start: int, end: int, total: int | None = None, fence: int = 5, **changes
) -> ChangelogEntry:
    """The effects of the entries in (start, end], under the id end-7 in the changelog."""
    return ChangelogEntry(
        entry_id=f"{end}-7",
        from_offset=Offset(start, 0),
        to_offset=Offset(end, 0),
        fence=fence,
        total=end if total is None else total,
        events=end - start,
        changes=pack_changes(changes),
        ids=b"",
    )


class Changelog:
    """What Redis would answer: untrimmed entries, recorded snapshots, the committed offset."""

    def __init__(self, *entries: ChangelogEntry, committed: int | None = None) -> None:
        self.entries = list(entries)
        last = entries[-1].to_offset if entries else START
        self.committed = last if committed is None else Offset(committed, 0)
        self.snapshots: list[SnapshotRecord] = []
        self.elsewhere: list[SnapshotRecord] = []  # those that no agent may open

    def read_changelog(self, partition, after, count):
        later = [e for e in self.entries if Offset.parse(e.entry_id) > Offset.parse(after)]
        return ChangelogPage(later[:count], self.committed)

    def read_snapshots(self, partition):
        return self.snapshots

    def is_own_snapshot(self, partition, record):
        return record not in self.elsewhere


def content(state: PartitionState) -> dict:
    with state.reading() as reading:
        return dict(reading.items())


def values_of(state: PartitionState, keys: Iterable[str]) -> dict[str, Any]:
    with state.reading() as reading:
        return reading.get_many(keys)


def restored(store: ChangelogReader, state: PartitionState, partition: Partition) -> Offset:
    """Where it stands then."""
    restore(store, state, partition)
    return state.offset
