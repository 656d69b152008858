"""An agent's replicas as they are, one piece of work at a time in virtual time instead of threads.

Real: agent.replicas, with its queues, roles and flags. Fake: the disk and how fast it is. Beside
each replica stands what it really is, judged by the ledger: see `SimWork`.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from agent.replicas import core
from agent.replicas.manager import ReplicaManager
from agent.replicas.replica import Place
from agent.replicas.work import Work
from agent.state.errors import StateError
from agent.state.restore import Progress, Steps
from agent.store.group import GroupStore
from assignment.types import Claim, Partition
from tests.simulation.agenda import Alarm
from tests.simulation.checks import replica_is_right
from tests.simulation.replicas import DiskState

if TYPE_CHECKING:
    from tests.simulation.agents import SimAgent

FAST_MS, SLOW_MS = (1, 40), (60, 500)  # from one piece of work to the next
PIECE = (1, 6)  # steps of a replica in one turn
WATCH_MS = (20, 250)  # how soon a new entry is seen
PAUSED_LOOK_MS = 100
KEEP_UNWANTED_MS = 20_000
NEVER_CLOSED = SimpleNamespace(is_set=lambda: False, wait=lambda seconds: None)  # time is virtual


class SimWork(Work):
    """`replica.near`: since it was opened it was once within the acceptable lag of the end read at
    that moment, counted by the ledger (learners.md L11).
    """

    def __init__(self, agent: "SimAgent", store: GroupStore, partition: Partition) -> None:
        super().__init__(store, Path(), partition)
        self._agent, self._world = agent, agent.world
        self._left = 0
        self._at_it = False
        self._end = 0

    def go_on(
        self, claim: Claim | None, must_stop: Callable[[], bool], note: Callable[[Progress], None]
    ) -> Place | None:
        self._left, self._at_it = self._world.random.randint(*PIECE), True
        try:
            if self._world.random.random() < self._world.restore_failures:
                self.rest()
                raise StateError("the disk refuses")
            return super().go_on(claim, self._tired, note)
        finally:
            self._at_it = False

    def _tired(self) -> bool:
        self._left -= 1
        return self._left <= 0

    def _opened(self) -> Any:
        return self._agent.replica_of(self._partition)

    def _begun(self, state: Any) -> Steps[None]:
        old_one, losses = self._world.server.former, self._world.ledger.losses
        for progress in super()._begun(state):
            if progress.have is None:
                self._end = self._world.ledger.book(str(self._partition)).total
            elif progress.exact:
                self._compare(state, progress.have)
            else:
                state.near = False
            yield progress
        self._compare(state, state.total)
        if old_one is None and self._world.ledger.losses == losses:
            replica_is_right(self._world, self._agent, self._partition)

    def _compare(self, replica: DiskState, have: int) -> None:
        told = self._agent.membership.state.settings
        replica.near |= self._end - have <= told.acceptable_lag_records

    def rest(self) -> None:
        super().rest()
        if not self._at_it:  # nobody wants it any more, or it is the consumer's
            self._agent.replica_of(self._partition).near = False

    def remove(self) -> None:
        self.rest()
        self._agent.disk.pop(self._partition, None)


class SimReplicaManager(ReplicaManager):
    def __init__(self, agent: "SimAgent") -> None:
        self._agent, self._world = agent, agent.world
        self._work_alarm = Alarm(self._world.agenda, self._work_due)
        self._watch_alarm = Alarm(self._world.agenda, self._watch_due)
        store = agent.new_store()
        told = agent.inbox.put, agent.clock, KEEP_UNWANTED_MS
        super().__init__(store, Path(), *told, quick=store)
        self._watches = False
        self._closed = NEVER_CLOSED  # type: ignore[assignment]
        self.slow = self._world.random.random() < 0.3

    def find_left_over(self) -> None:
        found = sorted(self._agent.disk)
        self._do(lambda replicas: core.set_aside(replicas, found, self._clock()))

    def waits_ms(self) -> int:
        """Until the last replica that failed is tried again."""
        due = [s.retry_ms for s in self._replicas.of.values() if s.retry_ms is not None]
        return max(0, max(due, default=0) - self._agent.clock())

    # --- instead of threads

    def _new_work(self, partition: Partition) -> Work:
        return SimWork(self._agent, self._store, partition)

    def _wake(self) -> None:
        if self._replicas.is_waiting:
            self._work_alarm.ask(self._world.now_ms + self._pause_ms())
        if self._replicas.of and not self._watches:
            self._watches = True
            self._watch_alarm.ask(self._world.now_ms)

    def _pause_ms(self) -> int:
        return self._world.random.randint(*(SLOW_MS if self.slow else FAST_MS))

    def _stands_still(self, alarm: Alarm) -> bool:
        if self._agent.lives and self._world.now_ms < self._agent.paused_until_ms:
            alarm.ask(self._world.now_ms + PAUSED_LOOK_MS)
            return True
        return not self._agent.lives

    def _work_due(self) -> None:
        if self._stands_still(self._work_alarm):
            return
        if turn := self._taken():
            self._work_on(turn)
            self._work_alarm.ask(self._world.now_ms + self._pause_ms())

    def _watch_due(self) -> None:
        if self._stands_still(self._watch_alarm):
            return
        if tailed := self._replicas.tailed():
            self._wait_for_changes(tailed)
        self._do(lambda replicas: core.due(replicas, self._clock()))
        self._watch_alarm.ask(self._world.now_ms + self._world.random.randint(*WATCH_MS))
