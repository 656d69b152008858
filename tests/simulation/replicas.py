"""A partition's state as a consumer keeps it: what was counted of which events, up to where.

An event changes one of a few keys; a changelog entry has the new values of those that its events
changed, so that whoever misses one entry keeps old values. It is brought forward by agent.state's
own `restore`; snapshots lie in a dictionary.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from agent.state.errors import SnapshotBroken
from agent.state.partition import Applied
from agent.store.group import GroupStore
from assignment.scripts import agent_side
from assignment.scripts.agent_side import SnapshotRecord, SnapshotResult
from assignment.types import START, Offset, Partition
from assignment.wire import ChangelogEntry

Values = Mapping[int, int]  # key -> digest of its events, which only the same in that order give
KEYS = 3
PRIME = 2**61 - 1
SNAPSHOT_PARTS = 3  # in so many steps one is read


def effects(total: int, values: Values, events: Iterable[int]) -> tuple[int, dict[int, int]]:
    """After the events with these numbers: how many there were, and the keys that they changed."""
    changed: dict[int, int] = {}
    for number in events:
        total += 1
        key = number % KEYS
        before = changed.get(key, values.get(key, 0))
        changed[key] = (before * 1_000_003 + number + 1) % PRIME
    return total, changed


def packed(total: int, changed: Values) -> bytes:
    pairs = (f"{key}:{digest}" for key, digest in sorted(changed.items()))
    return " ".join((str(total), *pairs)).encode()


def unpacked(changes: bytes) -> tuple[int, dict[int, int]]:
    total, *pairs = changes.decode().split()
    return int(total), {int(k): int(v) for k, _, v in (pair.partition(":") for pair in pairs)}


@dataclass(slots=True)
class DiskState:
    """`near`: its member may call it ready, by what it really has (see manager.SimWork). `files`:
    all snapshots, by their urls.
    """

    files: "Files" = field(repr=False)
    offset: Offset = START
    total: int = 0
    values: Values = field(default_factory=dict)
    changelog_id: str = "0-0"
    fence: int = 0
    near: bool = False

    def apply(self, entry: ChangelogEntry) -> Applied:
        """As agent.state.PartitionState does it."""
        if entry.to_offset <= self.offset:
            return Applied.SKIPPED
        if entry.from_offset != self.offset:
            return Applied.GAP
        self.take(entry.to_offset, entry.changes, entry.entry_id, entry.fence)
        return Applied.APPLIED

    def take(self, offset: Offset, changes: bytes, changelog_id: str, fence: int) -> None:
        self.total, changed = unpacked(changes)
        self.values = {**self.values, **changed}
        self.offset, self.fence = offset, fence
        self.changelog_id = changelog_id or self.changelog_id

    def become(self, other: "DiskState") -> None:
        for name in DiskState.__slots__:
            setattr(self, name, getattr(other, name))
        self.near = False

    def take_over(self) -> None: ...

    @contextmanager
    def replacement(self) -> Iterator["DiskState"]:
        yield DiskState(self.files)

    def close(self) -> None:
        """What is written stays."""


Files = dict[str, DiskState]


def read_snapshot(state: DiskState, snapshot: SnapshotRecord) -> Iterator[float]:
    """In the place of agent.state.snapshots.snapshot_steps."""
    if snapshot.url not in state.files:
        raise SnapshotBroken(snapshot.url)
    yield from (part / SNAPSHOT_PARTS for part in range(SNAPSHOT_PARTS))
    state.become(replace(state.files[snapshot.url], changelog_id=snapshot.changelog_id))


def snapshot_url(partition: Partition | str, offset: Offset | str, fence: int | str) -> str:
    return f"sim:{partition}/{offset}-{fence}"


def write_snapshot(
    store: GroupStore, replica: DiskState, partition: Partition, fence: int
) -> SnapshotRecord | None:
    """None: it was refused."""
    url = snapshot_url(partition, replica.offset, fence)
    replica.files[url] = replace(replica)
    record = SnapshotRecord(
        url=url,
        offset=replica.offset,
        changelog_id=replica.changelog_id,
        total=replica.total,
        fence=fence,
    )
    result = store.run(agent_side.snapshot(partition, record, trim=True))
    return record if result is SnapshotResult.DONE else None
