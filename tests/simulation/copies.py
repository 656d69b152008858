"""A partition's state as a consumer keeps it: what was counted of which events, up to where.

In place of keys and values it has a digest that only the same events in the same order give. It is
brought forward by agent.state's own `tail`; snapshots lie in a dictionary.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from agent.state.errors import StateLost
from agent.state.partition import Applied
from agent.state.restore import PASSED_OVER, tail
from agent.store import GroupStore
from assignment.scripts import SnapshotRecord
from assignment.types import START, Offset, Partition
from assignment.wire import ChangelogEntry

Ids = Iterable[tuple[int, int]]
PRIME = 2**61 - 1


def effects(total: int, digest: int, ids: Ids) -> tuple[int, int]:
    """After the events with these ids: how many there were, and their digest."""
    for ms, seq in ids:
        total += 1
        digest = (digest * 1_000_003 + ms * 31 + seq + 1) % PRIME
    return total, digest


def packed(total: int, digest: int) -> bytes:
    return b"%d %d" % (total, digest)


@dataclass(slots=True)
class Copy:
    offset: Offset = START
    total: int = 0
    digest: int = 0
    changelog_id: str = "0-0"

    def apply(self, entry: ChangelogEntry) -> Applied:
        """As agent.state.PartitionState does it."""
        if entry.to_offset <= self.offset:
            return Applied.SKIPPED
        if entry.from_offset != self.offset:
            return Applied.GAP
        self.take(entry.to_offset, entry.changes, entry.entry_id)
        return Applied.APPLIED

    def take(self, offset: Offset, changes: bytes, changelog_id: str) -> None:
        self.total, self.digest = map(int, changes.split())
        self.offset = offset
        self.changelog_id = changelog_id or self.changelog_id

    def become(self, other: "Copy") -> None:
        for name in Copy.__slots__:
            setattr(self, name, getattr(other, name))


Files = dict[str, Copy]


def bring_up(store: GroupStore, copy: Any, partition: Partition, files: Files) -> None:
    """To the committed offset, as agent.state.restore does it. Raises StateLost."""
    reached = tail(store, copy, partition)
    for passed_over in PASSED_OVER:
        if reached is not None:
            return
        usable = [r for r in store.read_snapshots(partition)[passed_over:] if r.url in files]
        copy.become(files[usable[0].url] if usable else Copy())
        reached = tail(store, copy, partition)
    if reached is None:
        raise StateLost(f"nothing leads {partition} to its committed offset")


def write_snapshot(
    store: GroupStore, copy: Copy, partition: Partition, fence: int, files: Files
) -> None:
    url = f"sim:{partition}/{copy.offset}-{fence}"
    files[url] = replace(copy)
    record = SnapshotRecord(
        url=url, offset=copy.offset, changelog_id=copy.changelog_id, total=copy.total, fence=fence
    )
    store.snapshot(partition, record, trim=True)
