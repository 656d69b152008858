"""Beside a member of a group whose agents coordinate: one of them computes for all.

A key of the group names who does, and ends by itself; it only saves work. What keeps two that
compute at once from harm is compare-and-set, as between two workers of a dashboard
(coordination.md section 4). The rules and what they need are loaded by who computes.
"""

import random
import threading
from collections.abc import Callable

from agent.consumer.control import monotonic_ms
from agent.coordination.effects import RedisEffects
from agent.membership import Note
from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.coordinator.facts import GroupRecord
from assignment.coordinator.reading import ticker_away
from assignment.scripts.group_read import Gap, Meta, Ticker
from assignment.types import Coordination, Reason

TICK_MS = 1_000
LEASE_MS = 3_000  # of who computes: after its death another one does
AWAY_S = 1.0  # between two tries while Redis is away
ROUNDS_MAX = 5  # changes that keep coming wait for the next tick
CHANGES_NOTHING = frozenset(
    (
        Reason.TARGET,
        Reason.RELEASED,
        Reason.EXPIRED,
        Reason.REVOKED,
        Reason.SETTINGS,
        Reason.MODE,
        Reason.MANUAL,
    )
)  # a dashboard computes what a person asked of it; if it died, the next turn does


class Coordinator:
    """One turn at a time, of a thread of its own or of whoever calls `turn`.

    `incarnation`: the highest that this member knows of.
    """

    def __init__(
        self, store: GroupStore, member_id: str, incarnation: Callable[[], int], note: Note
    ) -> None:
        self._store = store
        self._member_id = member_id
        self._incarnation = incarnation
        self._note = note
        self._computes = False
        self._away = Gap(0, 0)

    def turn(self) -> None:
        """What a tick does, if this member computes. Raises StoreUnavailable."""
        meta = self._store.meta()
        computes = meta.coordination is Coordination.CLIENT and self._is_mine()
        if computes is not self._computes:
            self._note("coordinates" if computes else "coordinates no more")
            self._computes = computes
        if computes:
            self._tick()

    def look(self) -> None:
        """Something changed. Raises StoreUnavailable."""
        if self._computes:
            self._rebalance()

    def resign(self) -> None:
        """Another one may at once. Raises StoreUnavailable."""
        if self._computes and self._holder() == self._member_id:
            self._store.door.ask("DEL", self._store.keys.coordinator)
        self._computes = False

    def _is_mine(self) -> bool:
        key, door = self._store.keys.coordinator, self._store.door
        if door.ask("SET", key, self._member_id, "NX", "PX", LEASE_MS):
            return True
        if self._holder() != self._member_id:
            return False
        return bool(door.ask("PEXPIRE", key, LEASE_MS))

    def _holder(self) -> str:
        holder = self._store.door.ask("GET", self._store.keys.coordinator)
        return holder.decode() if holder else ""

    def _tick(self) -> None:
        from assignment.coordinator.tick import tick

        record = GroupRecord(name=self._store.group, settings=None, incarnation=self._incarnation())
        effects = RedisEffects(self._store, self._ticker())
        effects.carry_out(tick(record, Coordination.CLIENT))
        if effects.rebalance_wanted:
            self._rebalance()

    def _ticker(self) -> Ticker:
        """Whoever computed before gave its last sign of life with its last tick."""
        now_ms, meta = self._store.now_ms(), self._store.meta()
        self._away = ticker_away(now_ms, meta.tick_ms or None, self._away)
        return Ticker(now_ms, self._away)

    def _rebalance(self) -> None:
        from assignment.coordinator.rebalance import rebalance

        for _ in range(ROUNDS_MAX):
            if not is_due(self._store.meta()):
                return
            result = RedisEffects(self._store).carry_out(rebalance(Coordination.CLIENT))
            self._note("rebalance", why=result)


def is_due(meta: Meta) -> bool:
    return meta.coordination is Coordination.CLIENT and meta.group_epoch > meta.target_epoch


class CoordinatorThread:
    """Turns of a coordinator, and a look at each change that the control stream tells."""

    def __init__(
        self,
        coordinator: Coordinator,
        store: GroupStore,
        deliver: Callable[[BaseException], None],
    ) -> None:
        self._coordinator = coordinator
        self._store = store
        self._deliver = deliver
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                try:
                    self._go_on()
                except StoreUnavailable:
                    self._closed.wait(AWAY_S)
        except BaseException as error:  # a bug: the loop must hear of it and end
            if not self._closed.is_set():
                self._deliver(error)

    def _go_on(self) -> None:
        after, next_turn_ms = self._store.last_hint_id(), 0
        while not self._closed.is_set():
            if monotonic_ms() >= next_turn_ms:
                self._coordinator.turn()
                next_turn_ms = monotonic_ms() + round(TICK_MS * random.uniform(0.8, 1))
            heard = self._store.wait_hints(after, max(1, next_turn_ms - monotonic_ms()))
            after = heard.last_id
            if any(hint.reason == Reason.MODE for hint in heard.hints):
                next_turn_ms = 0  # somebody computes from now on, or nobody here does
            if any(hint.reason not in CHANGES_NOTHING for hint in heard.hints):
                self._coordinator.look()
