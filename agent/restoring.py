"""Brings partitions' state to the committed offset, in threads of its own (pipeline.md, 4)."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.store import GroupStore, StoreUnavailable
from assignment.types import Claim, Partition

RESTORERS = 2  # restoring waits for disk and Redis; more would take the consumer's cores
RETRY_MS = 1_000  # before a failed restore is tried again


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """`failure` "": the copy stands at the committed offset read after the acquire."""

    claim: Claim
    failure: str = ""


Restore = Callable[[Claim], None]


class Restorer:
    """One partition is restored by one thread at a time. The queue holds what is held."""

    def __init__(
        self, restore: Restore, deliver: Callable[[RestoreResult | BaseException], None]
    ) -> None:
        self._restore = restore
        self._deliver = deliver
        self._orders: queue.SimpleQueue[Claim] = queue.SimpleQueue()
        self._turns: dict[Partition, threading.Lock] = {}
        self._threads = 0

    def order(self, claim: Claim) -> None:
        """Threads are started only when there is something to restore."""
        self._turns.setdefault(claim.partition, threading.Lock())
        self._orders.put(claim)
        if self._threads < RESTORERS:
            self._threads += 1
            threading.Thread(target=self._run, name="restorer", daemon=True).start()

    def _run(self) -> None:
        try:
            while True:
                claim = self._orders.get()
                with self._turns[claim.partition]:
                    result = self._restored(claim)
                self._deliver(result)
        except BaseException as error:  # a bug: the loop must hear of it and end
            self._deliver(error)

    def _restored(self, claim: Claim) -> RestoreResult:
        from agent.state.errors import StateError

        try:
            self._restore(claim)
        except (StateError, StoreUnavailable) as error:
            return RestoreResult(claim, str(error))
        return RestoreResult(claim)


def restore_into(store: GroupStore, state_dir: Path) -> Restore:
    """The real one: newest good snapshot, then the changelog, into LMDB under `state_dir`."""

    def restore(claim: Claim) -> None:
        from agent.state import PartitionState
        from agent.state import restore as bring_up

        state = PartitionState.open(state_dir, store.group, claim.partition)
        try:
            bring_up(store, state, claim.partition)
        finally:
            state.close()

    return restore
