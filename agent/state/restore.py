"""Brings a replica to the committed offset: newest good snapshot, then the changelog.

The rules are those of pipeline.md section 4. Both ways are there in small steps too, so that many
replicas can take turns and one can be given up half way.
"""

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agent.state.errors import SnapshotBroken, StateLost
from agent.state.partition import Applied, PartitionState
from agent.state.snapshots import snapshot_steps
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import START, Offset, Partition
from assignment.wire import ChangelogEntry, ChangelogPage

PAGE_FIRST = (
    5  # entries: the last one applied and some more; one holds the changes of a whole batch
)
PAGE_ENTRIES = 20
PAGE_BYTES = 4 * 2**20  # fewer entries when they are larger: an answer must come in time
# How many recorded snapshots each try passes over. The owner may record a new one and trim while
# the one before is read; and one may be whole and lead nowhere: Redis lost the commit it was of.
PASSED_OVER = (0, 1, 0, 2)
URL_SHOWN = 200

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replica is. `have` and `end`: events applied in total, here and where it shall get
    to.

    None and -1: nothing new is known. `exact` False: `have` is an estimate, a snapshot is being
    read to replace the replica of before.
    """

    have: int | None
    end: int
    exact: bool


Steps = Generator[Progress, None, Answer]


class ChangelogReader(Protocol):
    """What restoring needs of a group's store."""

    def read_changelog(self, partition: Partition, after: str, count: int) -> ChangelogPage: ...

    def read_snapshots(self, partition: Partition) -> Sequence[SnapshotRecord]:
        """The recorded ones, newest first; at most two."""
        ...

    def is_own_snapshot(self, partition: Partition, record: SnapshotRecord) -> bool:
        """Whether it lies where this group's snapshots do; any other is never opened."""
        ...


def restore(store: ChangelogReader, state: PartitionState, partition: Partition) -> None:
    """Brings the replica to the committed offset, keeping it when it leads there.

    Its writer from now on. Raises StateLost (nothing leads there), WriterReplaced or StateError
    (the disk refused).
    """
    for _ in restore_steps(store, state, partition):
        pass


def tail_steps(
    store: ChangelogReader, state: PartitionState, partition: Partition
) -> Steps[Offset | None]:
    """Applies what the changelog has after this replica, one entry a step.

    Answers the committed offset, at which the replica now stands, or None for a gap: then this
    replica does not lead there and must be restored.
    """
    after, count = state.changelog_id, PAGE_FIRST
    page = _page_from(store, state, partition, after, count)
    if page is not None:
        yield Progress(None, page.total, exact=True)
    while page is not None:
        for entry in page.entries:
            if state.apply(entry) is Applied.GAP:
                return None
            after = entry.entry_id
            yield Progress(state.total, page.total, exact=True)
        if len(page.entries) < count:
            return page.committed if state.offset == page.committed else None
        count = 1 + _entries_of_next_page(page.entries)
        page = _page_from(store, state, partition, after, count)
    return None


def _page_from(
    store: ChangelogReader, state: PartitionState, partition: Partition, entry_id: str, count: int
) -> ChangelogPage | None:
    """With the entry of that id, up to which the replica has it; None: of another history.

    The server may have changed since the page before.
    """
    page = store.read_changelog(partition, _just_before(entry_id), count)
    return page if _shares_history(store, state, partition, page.entries) else None


def _shares_history(
    store: ChangelogReader,
    state: PartitionState,
    partition: Partition,
    entries: Sequence[ChangelogEntry],
) -> bool:
    """Whether this Redis knows the last commit that the replica holds: its offset, fence, and id.

    An offset alone may be of a history that Redis lost, and reached since by other commits, also
    under the same fence; the id names the server that gave it (commit.lua). Where Redis has neither
    changelog nor snapshots, nothing speaks against the replica.
    """
    last = (state.offset, state.fence, state.changelog_id)
    if state.offset == START or any((e.to_offset, e.fence, e.entry_id) == last for e in entries):
        return True
    snapshots = store.read_snapshots(partition)
    return any((s.offset, s.fence, s.changelog_id) == last for s in snapshots) or not (
        snapshots or store.read_changelog(partition, "0-0", 1).entries
    )


def _just_before(entry_id: str) -> str:
    at = Offset.parse(entry_id)
    if at.seq:
        return str(Offset(at.ms, at.seq - 1))
    return str(Offset(at.ms - 1, 2**64 - 1)) if at.ms else entry_id


def restore_steps(
    store: ChangelogReader, state: PartitionState, partition: Partition
) -> Steps[None]:
    """`restore`, one changelog entry or one block of a snapshot a step."""
    state.take_over()
    reached = yield from tail_steps(store, state, partition)
    for passed_over in PASSED_OVER:
        if reached is not None:
            return
        with state.replacement() as other:
            yield from _start_again(store, other, partition, passed_over)
            reached = yield from tail_steps(store, other, partition)
            if reached is not None:
                state.become(other)
    if reached is None:
        raise StateLost(
            f"neither changelog nor snapshots of {partition} lead to its committed offset; "
            f"the replica stands at {state.offset}{_but_elsewhere(store, partition)}"
        )


def _but_elsewhere(store: ChangelogReader, partition: Partition) -> str:
    records = store.read_snapshots(partition)
    others = [one for one in records if not store.is_own_snapshot(partition, one)]
    urls = ", ".join(repr(one.url[:URL_SHOWN]) for one in others)
    return f"; not opened, since not below --snapshot-url: {urls}" if urls else ""


def _start_again(
    store: ChangelogReader, state: PartitionState, partition: Partition, passed_over: int
) -> Steps[None]:
    yield Progress(0, -1, exact=False)  # what the replica of before holds does not count
    for snapshot in store.read_snapshots(partition)[passed_over:]:
        if not store.is_own_snapshot(partition, snapshot):
            continue
        with (
            contextlib.suppress(SnapshotBroken),
            contextlib.closing(snapshot_steps(state, snapshot)) as parts,
        ):
            for part in parts:
                yield Progress(int(part * snapshot.total), -1, exact=False)
            return
    # Empty then: an untrimmed changelog leads anywhere from there.


def _entries_of_next_page(entries: Sequence[ChangelogEntry]) -> int:
    size = max(len(entry.changes) for entry in entries)
    return max(1, min(PAGE_ENTRIES, PAGE_BYTES // max(1, size)))
