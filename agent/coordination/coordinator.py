"""Beside a member of a group whose agents coordinate: one of them computes for all.

A key of the group names who does, and ends by itself; it only saves work. What keeps two that
compute at once from harm is compare-and-set, as between two workers of a dashboard
(coordination.md section 4). The rules and what they need are loaded by who computes.
"""

import random
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from agent.consumer.control import monotonic_ms
from agent.coordination.effects import RedisEffects
from agent.coordination.memory import Memory
from agent.membership import Note
from agent.state.errors import StateError
from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.coordinator.facts import GroupRecord
from assignment.coordinator.reading import ticker_away
from assignment.errors import Damaged
from assignment.scripts.agent_side import claim_turn
from assignment.scripts.group_read import Gap, Ticker
from assignment.types import NOT_A_CAUSE, Coordination, Epoch, Reason

# Of who computes. With the wait for it below TICKER_AWAY_MS: so its death delays no session's end.
LEASE_MS = 2_000
TURNS_A_LEASE = 3
JITTER = 0.2  # of a lease: those who find it free do not all ask at once
AWAY_S = 1.0  # between two tries while Redis is away
SERVED_TURNS = 5  # of a dashboard, before it is asked again: after a wipe nobody may tell
ROUNDS_MAX = 5  # changes that keep coming wait for the next turn
# A dashboard computes what a person asked of it; if it died, the next turn does.
NOT_LOOKED_AT = NOT_A_CAUSE | {Reason.MANUAL}


class Coordinator:
    """One turn at a time, of a thread of its own or of whoever calls `turn`.

    `known`: the highest incarnation and mode_epoch that this member heard of.
    """

    def __init__(
        self,
        store: GroupStore,
        member_id: str,
        known: Callable[[], Epoch],
        memory: Memory,
        note: Note,
    ) -> None:
        self._store = store
        self._member_id = member_id
        self._known = known
        self._served_at: Epoch | None = None  # what was known when a dashboard computed
        self._served_turns = 0
        self._memory = memory
        self._note = note
        self.computes = False
        self._lease_ms = LEASE_MS
        self._away = Gap(0, 0)
        self._said = ""  # came of the last rebalance

    def turn(self) -> int:
        """What a tick does, if this member computes. In how many ms to come again. Raises
        StoreUnavailable, or StateError: whoever cannot know what was must not compute.
        """
        again_ms = self.claim()
        if self.computes:
            from assignment.coordinator.tick import tick

            effects = RedisEffects(
                self._store, self._member_id, self._note, self._memory, self.ticker()
            )
            effects.carry_out(tick(self.record(), Coordination.CLIENT))
            if effects.rebalance_wanted:
                self._rebalance()
        return again_ms

    def look(self, reasons: Collection[str]) -> None:
        """`reasons` of hints. Raises StoreUnavailable."""
        if self.must_look(reasons):
            self._rebalance()

    def must_look(self, reasons: Collection[str]) -> bool:
        if Reason.MODE in reasons:
            self._served_at = None
        return self.computes and not NOT_LOOKED_AT.issuperset(reasons)

    def claim(self) -> int:
        """Computes from now on, if nobody else does. In how many ms to claim again: Redis is asked
        seldom while a dashboard computes, as far as this member knows. Raises as `turn`.
        """
        known = self._known()
        if known == self._served_at and self._served_turns < SERVED_TURNS:
            self._served_turns += 1
            return self._lease_ms
        self._served_turns = 0
        left_ms = self._store.run(claim_turn(self._member_id, self._lease_ms))
        self._served_at = known if left_ms < 0 else None
        if left_ms >= 0 and known.incarnation > self._memory.highest():
            self._memory.keep(known.incarnation)
        computes = left_ms == 0
        if computes is not self.computes:
            self._note("coordinates" if computes else "coordinates no more")
            self.computes = computes
        if computes:
            return self._lease_ms // TURNS_A_LEASE
        wait_ms = left_ms if left_ms > 0 else self._lease_ms
        return wait_ms + round(random.uniform(0, JITTER) * self._lease_ms)

    def resign(self) -> None:
        """Another one may at once. Raises StoreUnavailable."""
        if self.computes:
            self.computes = False
            self._store.run(claim_turn(self._member_id, 0))

    def step_back(self, why: str) -> None:
        self._note("cannot coordinate", why=why)
        with suppress(StoreUnavailable):  # the turn ends by itself
            self.resign()

    def record(self) -> GroupRecord:
        return GroupRecord(
            name=self._store.group,
            settings=None,
            coordination=Coordination.CLIENT,
            incarnation=max(self._known().incarnation, self._memory.highest()),
        )

    def ticker(self) -> Ticker:
        """Whoever computed before gave its last sign of life with its last tick."""
        now_ms, meta = self._store.now_ms(), self._store.meta()
        if meta.settings is not None:
            self._lease_ms = min(LEASE_MS, meta.settings.session_timeout_ms)
        self._away = ticker_away(now_ms, meta.tick_ms or None, self._away)
        return Ticker(now_ms, self._away, serves=False)

    def due_epoch(self) -> int | None:
        """The group_epoch for which there is no target, where the agents coordinate."""
        meta = self._store.meta()
        is_due = meta.coordination is Coordination.CLIENT and meta.group_epoch > meta.target_epoch
        return meta.group_epoch if is_due else None

    def _rebalance(self) -> None:
        from assignment.coordinator.rebalance import rebalance

        tried = None
        for _ in range(ROUNDS_MAX):
            due = self.due_epoch()
            if due is None or due == tried:
                return  # what cannot be done yet is tried again with the next turn
            tried = due
            effects = RedisEffects(self._store, self._member_id, self._note, self._memory)
            result = effects.carry_out(rebalance(Coordination.CLIENT))
            if result != self._said:
                self._said = result
                self._note("rebalance", why=result)


class CoordinatorThread:
    """Turns of a coordinator, and a look at each change that it hears of."""

    def __init__(self, coordinator: Coordinator, deliver: Callable[[BaseException], None]) -> None:
        self._coordinator = coordinator
        self._deliver = deliver
        self._closed = threading.Event()
        self._woken = threading.Condition()
        self._heard: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hear(self, reasons: Iterable[str]) -> None:
        """Of hints, in any thread."""
        with self._woken:
            self._heard.update(reasons)
            self._woken.notify()

    def close(self) -> None:
        self._closed.set()
        self.hear(())
        with suppress(StoreUnavailable):  # the turn ends by itself
            self._coordinator.resign()

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                try:
                    self._go_on()
                except StoreUnavailable:
                    self._closed.wait(AWAY_S)
                except (StateError, Damaged) as error:
                    self._coordinator.step_back(str(error))
                    self._closed.wait(AWAY_S)
        except BaseException as error:  # a bug: the loop must hear of it and end
            if not self._closed.is_set():
                self._deliver(error)

    def _go_on(self) -> None:
        next_turn_ms = 0
        while not self._closed.is_set():
            if monotonic_ms() >= next_turn_ms:
                next_turn_ms = monotonic_ms() + self._coordinator.turn()
            reasons = self._wait(next_turn_ms - monotonic_ms())
            if Reason.MODE in reasons:
                next_turn_ms = 0  # somebody computes from now on, or nobody here does
            self._coordinator.look(reasons)

    def _wait(self, most_ms: int) -> frozenset[str]:
        with self._woken:
            if not self._heard and not self._closed.is_set():
                self._woken.wait(max(0, most_ms) / 1_000)
            reasons = frozenset(self._heard)
            self._heard.clear()
        return reasons
