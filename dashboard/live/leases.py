"""Who does what only one process is to do at a time. Safety never depends on it."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import redis

from dashboard.live.connection import StoreUnavailable, keep_within, sync_client

# A killed process blocks others no longer. Of two that run after all, on a machine that stood still
# for so long, the epochs let one store its target.
LEASE_S = 3.0
RENEWED = 3  # times in that time, by who goes on


@contextmanager
def lease(name: str) -> Iterator[bool]:
    """Whether this one has it now, of all processes: as long as it goes on, and lives."""
    lock = sync_client().lock(name, timeout=LEASE_S, blocking=False, thread_local=False)
    if not lock.acquire():
        keep_within(name, round(LEASE_S * 1000))
        yield False
        return
    held = _leases.begin(lock)
    try:
        yield True
    finally:
        _leases.end(held)
        # Lost or unreachable: it ends by itself, and epochs guard the result.
        with suppress(redis.exceptions.LockError, StoreUnavailable):
            lock.release()


@dataclass(slots=True)
class _Held:
    """A lease. `renewer`: once it is held for long."""

    lock: Any
    since_s: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)
    renewer: threading.Thread | None = None


class _Leases:
    """Renews those of this process that are held for long, each by a thread of its own: where the
    server of one hangs the others do not wait. Most are held for some milliseconds, and a thread
    for each of them would cost as much as what is done meanwhile: one watches over all.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: deque[_Held] = deque()  # the oldest first
        self._watcher: threading.Thread | None = None

    def begin(self, lock: Any) -> _Held:
        held = _Held(lock)
        with self._lock:
            self._held.append(held)
            if self._watcher is None or not self._watcher.is_alive():  # or of before a fork
                self._watcher = threading.Thread(target=self._watch, name="leases", daemon=True)
                self._watcher.start()
        return held

    def end(self, held: _Held) -> None:
        with self._lock:
            held.done.set()
        if held.renewer:
            held.renewer.join()

    def _watch(self) -> None:
        """As long as there are any."""
        while held := self._oldest():
            time.sleep(max(0.0, held.since_s + LEASE_S / RENEWED - time.monotonic()))
            with self._lock:
                if not held.done.is_set():
                    held.renewer = threading.Thread(target=_renew, args=(held,), daemon=True)
                    held.renewer.start()

    def _oldest(self) -> _Held | None:
        with self._lock:
            while self._held:
                held = self._held.popleft()
                if not held.done.is_set():
                    return held
            self._watcher = None
            return None


_leases = _Leases()


def _renew(held: _Held) -> None:
    while True:
        try:
            held.lock.reacquire()
        except redis.exceptions.LockError:
            return  # lost: the run goes on, its result is committed by epoch, not by this lock
        except StoreUnavailable:
            pass  # away: the next try may come in time
        if held.done.wait(LEASE_S / RENEWED):
            return
