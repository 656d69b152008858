"""Effects that live in a partition's state: merged with LMDB, packed for the changelog."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.spark.commit import Effects, PartitionChanges, Prepared
from agent.spark.reading import Counted
from agent.state.errors import StateError
from agent.state.partition import PartitionState
from agent.state.restore import restore
from agent.store.group import GroupStore
from assignment.scripts.agent_side import CommitAnswer
from assignment.scripts.offsets import EffectsIn
from assignment.types import Offset, Partition, Range
from assignment.wire import pack_changes

OPEN_MAX = 1_024  # LMDB files at once; more partitions than this in one consumer reopen theirs

Merge = Callable[[Any, Mapping[str, Any]], Any]
Committed = Callable[[PartitionState, int, int], None]  # state, fence, bytes: decides on snapshots


@dataclass(frozen=True)
class StateEffects(Effects):
    """Partition state of one consumer: opened when first needed, written under a fence that holds.

    Who was paused and goes on when its fence is outdated takes nothing over: the agent may be
    restoring the same file for another tenure, or learn.
    """

    kind = EffectsIn.STATE
    store: GroupStore
    state_dir: str
    group: str
    merge: Merge
    committed: Committed = lambda state, fence, size: None
    _states: dict[Partition, PartitionState] = field(init=False, default_factory=dict)
    # Under which fence a state was taken over.
    _writes: dict[Partition, int] = field(init=False, default_factory=dict)

    def prepare(
        self, one: Range, count: Counted, committed: Offset, changes: PartitionChanges
    ) -> Prepared | None:
        """Merges with the state at `from`. Raises StateError: nothing was committed."""
        state = self._state(one.partition)
        if self._writes.get(one.partition) != one.fence or state.offset != committed:
            if self.store.last_fence(one.partition) != one.fence:
                return None
            restore(self.store, state, one.partition)
            self._writes[one.partition] = one.fence
        if committed != one.from_offset:
            return None
        with state.reading() as reading:  # values at `from`, whoever writes meanwhile
            if reading.offset != one.from_offset:
                return None
            total = reading.total
            old = reading.get_many(key for key, _ in changes.changes)
        values: dict[str, Any] = {}
        for key, change in changes.changes:
            values[key] = self.merge(values.get(key, old.get(key)), change)
        packed = pack_changes(values)
        return Prepared(one, count, total, packed=packed, values=values)

    def applied(self, prepared: Prepared, answer: CommitAnswer) -> None:
        """The same effects to LMDB; a replica that this leaves behind is brought forward later."""
        one, count = prepared.one, prepared.count
        state = self._state(one.partition)
        try:
            state.apply_changes(
                one.from_offset,
                count.end,
                prepared.values,
                total=prepared.base_total + count.events,
                changelog_id=answer.changelog_id or None,
                fence=one.fence,
            )
        except StateError:
            self._writes.pop(state.partition, None)
            raise
        self.committed(state, one.fence, len(prepared.packed))

    def close(self) -> None:
        for partition in tuple(self._states):
            self._close(partition)

    def _close(self, partition: Partition) -> None:
        self._writes.pop(partition, None)
        self._states.pop(partition).close()

    def _state(self, partition: Partition) -> PartitionState:
        if partition in self._states and not self._states[partition].is_there:
            self._close(partition)  # removed by the agent while nobody wanted it
        if partition not in self._states:
            if len(self._states) >= OPEN_MAX:
                self._close(next(iter(self._states)))
            self._states[partition] = PartitionState.open(self.state_dir, self.group, partition)
        return self._states[partition]
