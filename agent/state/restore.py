"""Brings a copy to the committed offset: newest good snapshot, then the changelog.

The rules are those of pipeline.md section 4.
"""

import contextlib
from collections.abc import Sequence
from typing import Protocol

from agent.state.errors import SnapshotBroken, StateLost
from agent.state.partition import Applied, PartitionState
from agent.state.snapshots import read_snapshot
from assignment.scripts import SnapshotRecord
from assignment.types import Offset, Partition
from assignment.wire import ChangelogPage

PAGE_ENTRIES = 20  # one entry holds the changes of a whole batch
# How many recorded snapshots each try passes over. The owner may record a new one and trim while
# the one before is read; and one may be whole and lead nowhere: Redis lost the commit it was of.
PASSED_OVER = (0, 1, 0, 2)


class ChangelogReader(Protocol):
    """What restoring needs of a group's store."""

    def read_changelog(self, partition: Partition, after: str, count: int) -> ChangelogPage: ...

    def read_snapshots(self, partition: Partition) -> Sequence[SnapshotRecord]:
        """The recorded ones, newest first; at most two."""
        ...


def tail(store: ChangelogReader, state: PartitionState, partition: Partition) -> Offset | None:
    """Applies what the changelog has after this copy.

    Answers the committed offset, at which the copy now stands, or None for a gap: then this copy
    does not lead there and must be restored.
    """
    after = state.changelog_id
    while True:
        page = store.read_changelog(partition, after, PAGE_ENTRIES)
        for entry in page.entries:
            if state.apply(entry) is Applied.GAP:
                return None
            after = entry.entry_id
        if len(page.entries) < PAGE_ENTRIES:
            return page.committed if state.offset == page.committed else None


def restore(store: ChangelogReader, state: PartitionState, partition: Partition) -> Offset:
    """Brings the copy to the committed offset, keeping it when it leads there.

    Raises StateLost (nothing leads there) or StateError (the disk refused).
    """
    reached = tail(store, state, partition)
    for passed_over in PASSED_OVER:
        if reached is not None:
            return reached
        _start_again(store, state, partition, passed_over)
        reached = tail(store, state, partition)
    if reached is None:
        raise StateLost(
            f"neither changelog nor snapshots of {partition} lead to its committed offset; "
            f"the copy stands at {state.offset}"
        )
    return reached


def _start_again(
    store: ChangelogReader, state: PartitionState, partition: Partition, passed_over: int
) -> None:
    for snapshot in store.read_snapshots(partition)[passed_over:]:
        with contextlib.suppress(SnapshotBroken):
            return read_snapshot(state, snapshot)
    state.clear()  # an untrimmed changelog leads anywhere from here
