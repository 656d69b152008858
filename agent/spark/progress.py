"""What a consumer says of itself, to its agent and the dashboard: hash `progress:<member>`."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from agent.spark.commit import Outcome
from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.wire import ConsumerHealth

WRITE_EVERY_S = 0.5  # at most; after a change
LAST_WORD_S = 5.0  # a busy machine may need it; without Redis a write fails by itself
SAY_AGAIN_S = 5.0  # without a change: Redis may have forgotten (wiped, or the member was taken out)


class Progress:
    """Collects what the driver says; a thread of its own writes to Redis.

    Message again now and then: an agent that never hears `ready` counts its consumer as starting.
    """

    def __init__(
        self, groups: GroupStore, member_id: str, say_again_s: float = SAY_AGAIN_S
    ) -> None:
        self._groups = groups
        self._member_id = member_id
        self._say_again_s = say_again_s
        self._health = ConsumerHealth()
        self._changed = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._write, name="progress", daemon=True)
        self._thread.start()

    @property
    def health(self) -> ConsumerHealth:
        return self._health

    def say(self, **facts: Any) -> None:
        """Nothing any more after `end`."""
        with self._lock:
            if self._ended.is_set():
                return
            self._health = replace(self._health, **facts)
        self._changed.set()

    def batch_done(
        self, number: int, started_s: float, outcome: Outcome, troubles: Mapping[str, Any]
    ) -> None:
        """`troubles`: facts of the health too."""
        before = self._health
        rows = sum(outcome.applied.values())
        took_s = time.monotonic() - started_s
        self.say(
            batch=number,
            batch_at_ms=time.time_ns() // 1_000_000,
            rows=before.rows + rows,
            rows_per_second=round(rows / max(took_s, 0.001), 1),
            refused_commits=before.refused_commits + len(outcome.fenced),
            dead_letters=before.dead_letters + outcome.dead_letters,
            **troubles,
        )

    def end(self, why: str) -> None:
        """Says `dead` as the last thing."""
        with self._lock:
            self._health = replace(self._health, state="dead", why=why)
            self._ended.set()
        self._changed.set()
        self._thread.join(timeout=LAST_WORD_S)

    def _write(self) -> None:
        while True:
            self._changed.wait(self._say_again_s)
            self._changed.clear()
            ended, health = self._ended.is_set(), self._health
            try:
                self._groups.write_progress(self._member_id, health)
            except StoreUnavailable:
                self._changed.set()
            if ended:
                return
            self._ended.wait(WRITE_EVERY_S)
