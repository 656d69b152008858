"""Writes a partition's snapshot now and then, so that its changelog stays bounded.

In a thread of its own, from one read transaction: the next batch does not wait for it.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from agent.state.errors import StateError
from agent.state.keeping import removable, snapshot_files, write_manifest
from agent.state.partition import PartitionState
from agent.state.snapshots import remove_snapshot, write_snapshot
from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.errors import EvenkeelError
from assignment.scripts import agent_side
from assignment.scripts.agent_side import SnapshotRecord, SnapshotResult
from assignment.types import Partition

SNAPSHOT_ENTRIES = 1_000  # of the changelog since the last one
SNAPSHOT_BYTES = 32 * 2**20  # of packed changes since the last one
_log = structlog.get_logger()


@dataclass(slots=True)
class _Since:
    entries: int = 0
    size: int = 0
    ordered: bool = False
    latest: tuple[PartitionState, int] | None = None  # of the last commit, and its fence


class Snapshotter:
    """Call it after each commit. `trim`: False in check runs, in which nothing is trimmed."""

    def __init__(self, store: GroupStore, folder: str, trim: Callable[[], bool]) -> None:
        self._store = store
        self._folder = folder
        self._trim = trim
        self._since: dict[Partition, _Since] = {}
        self._lock = threading.Lock()
        self._orders: queue.SimpleQueue[tuple[PartitionState, int]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="snapshotter", daemon=True).start()

    def __call__(self, state: PartitionState, fence: int, size: int) -> None:
        with self._lock:
            since = self._since.setdefault(state.partition, _Since())
            since.entries += 1
            since.size += size
            since.latest = (state, fence)
            self._order_if_due(since)

    def _order_if_due(self, since: _Since) -> None:
        """One at a time of a partition; what comes meanwhile counts for the next one."""
        due = since.entries >= SNAPSHOT_ENTRIES or since.size >= SNAPSHOT_BYTES
        if due and not since.ordered and since.latest is not None:
            since.entries = since.size = 0
            since.ordered = True
            self._orders.put(since.latest)

    def _run(self) -> None:
        while True:
            state, fence = self._orders.get()
            try:
                self.write(state, fence)
            except (EvenkeelError, OSError, ValueError) as error:
                # Tried again after as many entries; the changelog grows meanwhile, nothing is lost.
                _log.warning("snapshot failed", partition=str(state.partition), why=str(error))
            with self._lock:
                since = self._since[state.partition]
                since.ordered = False
                self._order_if_due(since)

    def write(self, state: PartitionState, fence: int) -> None:
        """Writes, records, and removes what is old and named by no record. Raises StateError."""
        place = (self._folder, self._store.group, state.partition)
        record = write_snapshot(state, *place[:2], fence)
        call = agent_side.snapshot(state.partition, record, trim=self._trim())
        try:
            result = self._store.run(call)
        except StoreUnavailable:
            return  # it may be recorded: the file must stay
        if result is not SnapshotResult.DONE:
            remove_snapshot(record.url, *place)
            return
        _log.info("snapshot", partition=str(state.partition), offset=str(record.offset))
        self._tidy(state.partition, record)

    def _tidy(self, partition: Partition, record: SnapshotRecord) -> None:
        place = (self._folder, self._store.group, partition)
        try:
            written = write_manifest(*place, record)
            named = {one.url for one in (*written, *self._store.read_snapshots(partition))}
            now_ms = time.time_ns() // 1_000_000
            for url in removable(snapshot_files(*place), named, now_ms):
                remove_snapshot(url, *place)
        except (StateError, StoreUnavailable) as error:
            _log.warning("snapshots left behind", partition=str(partition), why=str(error))
