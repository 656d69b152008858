"""The work on one replica: open, restore, tail, close, remove. One thread at a time."""

from collections.abc import Callable
from pathlib import Path

from agent.replicas.replica import Place
from agent.state.errors import StateError
from agent.state.files import remove_replica
from agent.state.partition import PartitionState
from agent.state.restore import Progress, Steps, restore_steps
from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.types import Claim, Partition


class Work:
    """`serves`: the claim that was ordered when the way to the committed offset was begun; what was
    committed before it is in the replica at the end of that way.
    """

    def __init__(self, store: GroupStore, state_dir: Path, partition: Partition) -> None:
        self._store = store
        self._state_dir = state_dir
        self._partition = partition
        self._state: PartitionState | None = None
        self._steps: Steps[None] | None = None
        self.serves: Claim | None = None

    def go_on(
        self,
        claim: Claim | None,
        must_stop: Callable[[], bool],
        note: Callable[[Progress], None],
    ) -> Place | None:
        """One turn; None: not there yet.

        Raises StateError and StoreUnavailable: the file is closed then.
        """
        try:
            if self._state is None:
                self._state = self._opened()
            if self._steps is None:
                self._steps = self._begun(self._state)
                self.serves = claim
            for progress in self._steps:
                note(progress)
                if must_stop():
                    return None
            self._steps = None
            return Place(self._state.offset, self._state.changelog_id, self._state.total)
        except (StateError, StoreUnavailable):
            self.rest()
            raise

    def _opened(self) -> PartitionState:
        return PartitionState.open(self._state_dir, self._store.group, self._partition)

    def _begun(self, state: PartitionState) -> Steps[None]:
        return restore_steps(self._store, state, self._partition)

    def rest(self) -> None:
        """Closes the file; what was to replace it and is not whole goes."""
        if self._steps is not None:
            self._steps.close()
            self._steps = None
        if self._state is not None:
            self._state.close()
            self._state = None

    def remove(self) -> None:
        """For good. Raises StateError."""
        self.rest()
        remove_replica(self._state_dir, self._store.group, self._partition)
