"""Effects that live in a partition's state: merged with LMDB, packed for the changelog."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agent.spark.commit import PartitionChanges, Prepared
from agent.spark.ranges import Range
from agent.spark.source import Counted
from agent.state import ChangelogReader, PartitionState, restore
from assignment.scripts import CommitAnswer
from assignment.types import Offset, Partition
from assignment.wire import pack_changes

OPEN_MAX = 1_024  # LMDB files at once; more partitions than this in one consumer reopen theirs

Merge = Callable[[Any, Mapping[str, Any]], Any]


class Committed(Protocol):
    """Told after each commit, with the state as it stands: decides about snapshots."""

    def __call__(self, state: PartitionState, fence: int, size: int) -> None: ...


class StateEffects:
    """Partition state of one consumer: opened when first needed, closed when fenced."""

    def __init__(
        self,
        store: ChangelogReader,
        state_dir: str,
        group: str,
        merge: Merge,
        committed: Committed = lambda state, fence, size: None,
    ) -> None:
        self._store = store
        self._state_dir = state_dir
        self._group = group
        self._merge = merge
        self._committed = committed
        self._states: dict[Partition, PartitionState] = {}

    def prepare(
        self, one: Range, count: Counted, committed: Offset, changes: PartitionChanges
    ) -> Prepared | None:
        """Merges with the state at `from`. Raises StateError: nothing was committed."""
        state = self._state(one.partition)
        if state.offset != committed:
            restore(self._store, state, one.partition)
        if committed != one.from_offset:
            return None
        with state.reading() as reading:  # values at `from`, whoever writes meanwhile
            if reading.offset != one.from_offset:
                return None
            total = reading.total
            old = reading.get_many(key for key, _ in changes.changes)
        values: dict[str, Any] = {}
        for key, change in changes.changes:
            values[key] = self._merge(values.get(key, old.get(key)), change)
        packed = pack_changes(values)
        return Prepared(one, count.end, count.events, total, packed=packed, values=values)

    def applied(self, prepared: Prepared, answer: CommitAnswer) -> None:
        """The same effects to LMDB; a replica that this leaves behind is brought forward later."""
        state = self._state(prepared.one.partition)
        state.apply_changes(
            prepared.one.from_offset,
            prepared.to_offset,
            prepared.values,
            total=prepared.base_total + prepared.events,
            changelog_id=answer.changelog_id or None,
        )
        self._committed(state, prepared.one.fence, len(prepared.packed))

    def fenced(self, one: Range) -> None:
        """The replica stays open: the agent may restore it beside us, for a later fence."""

    def close(self) -> None:
        while self._states:
            self._states.popitem()[1].close()

    def _state(self, partition: Partition) -> PartitionState:
        if partition in self._states and not self._states[partition].is_there:
            self._states.pop(partition).close()  # removed by the agent while nobody wanted it
        if partition not in self._states:
            if len(self._states) >= OPEN_MAX:
                self._states.pop(next(iter(self._states))).close()
            self._states[partition] = PartitionState.open(self._state_dir, self._group, partition)
        return self._states[partition]
