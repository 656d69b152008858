"""Processes of a ticker, for looks that take much CPU. In the ticker such a look would take it from
all others; as a task it would wait for rebalances, and for agents (dashboard/priority.py).

Each looks at one group at a time. They are started when they are needed, and end with the ticker,
however that ends, for their standard input does.
"""

import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from django.db import close_old_connections

from dashboard import memory
from dashboard.coordinator.running import look
from dashboard.live import health
from dashboard.live.connection import StoreUnavailable

LOOKERS = max(2, min(4, os.cpu_count() or 1))
SHARE = 0.1  # of a processor, for a group's looks
PAUSE_MAX_S = 2.0  # whoever is gone is found within a session and three seconds
HUNG_S = 60.0  # a look: then its process is killed, and the next one begun anew
PROGRAM = "import django; django.setup(); from dashboard.coordinator.lookers import main; main()"
log = logging.getLogger(__name__)


class LookerEnded(Exception):
    """Its process did, or was killed; whether it looked is not known."""


class _Looker:
    def __init__(self) -> None:
        """Raises OSError."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # its share of the processor is not the ticker's
        )

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def look(self, group: str) -> float:
        """Seconds of CPU that it took. Raises LookerEnded."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{group}\n".encode())
            self._process.stdin.flush()
        except (OSError, ValueError) as error:  # the latter: it was told to end
            raise self._ended() from error
        awaited = select.poll()
        awaited.register(self._process.stdout, select.POLLIN)
        if not awaited.poll(HUNG_S * 1e3):
            self._process.kill()
            raise LookerEnded(f"it took longer than {HUNG_S:g} s")
        if not (answer := self._process.stdout.readline()):
            raise self._ended()
        return float(answer)

    def _ended(self) -> LookerEnded:
        return LookerEnded(f"its process ended with {self._process.wait()}")

    def end(self) -> None:
        """With the look that goes on; told what is closed already, it has ended."""
        with suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]


class Lookers:
    """Those of one ticker."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKERS, thread_name_prefix="looker")
        self._free: list[_Looker] = []
        self._busy: list[_Looker] = []
        self._wanted: set[str] = set()  # waits for a look, or has one
        self._next_s: dict[str, float] = {}  # group -> monotonic moment of its next look
        self._lock = threading.Lock()
        self._is_closed = False

    def want(self, group: str) -> None:
        """Unless a look at it goes on or is wanted, or its looks have had their share."""
        with self._lock:
            is_early = time.monotonic() < self._next_s.get(group, 0.0)
            if self._is_closed or is_early or group in self._wanted:
                return
            self._wanted.add(group)
        self._threads.submit(self._do, group)

    def close(self) -> None:
        """Nobody looks any more, once the looks that go on have ended."""
        with self._lock:
            self._is_closed = True
            every = [*self._free, *self._busy]
        for one in every:
            one.end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _do(self, group: str) -> None:
        seconds = 0.0
        try:
            seconds = self._look(group)
        except LookerEnded as error:
            log.error("look at group=%s: %s", group, error)
            with suppress(StoreUnavailable):
                health.note_look(group, is_well=False)
        except Exception:  # the top of a thread
            log.exception("look at group=%s", group)
        finally:
            with self._lock:
                self._next_s[group] = time.monotonic() + min(seconds / SHARE, PAUSE_MAX_S)
                self._wanted.discard(group)

    def _look(self, group: str) -> float:
        try:
            one = self._take()
        except OSError as error:
            log.error("no process to look at group=%s: %s", group, error)
            return look_once(group)
        try:
            seconds = one.look(group)
        finally:
            with self._lock:
                self._busy.remove(one)
        with self._lock:
            self._free.append(one)
        return seconds

    def _take(self) -> _Looker:
        """Raises OSError."""
        with self._lock:
            self._free = [one for one in self._free if one.lives]
            one = self._free.pop() if self._free else _Looker()
            self._busy.append(one)
            return one


def look_once(group: str) -> float:
    """Seconds of CPU that it took."""
    began_s = time.thread_time()
    close_old_connections()
    try:
        look(group)
    except StoreUnavailable as error:
        log.warning("no look at group=%s: %s", group, error)
    except Exception:  # the top of a loop
        log.exception("look at group=%s", group)
    finally:
        close_old_connections()
    return time.thread_time() - began_s


def main() -> None:
    """Looks at each group that a line of standard input names, and answers what that took. Who ends
    a service asks all of its processes; the ticker says here when it is time.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    answers, sys.stdout = sys.stdout, sys.stderr
    memory.settle()
    for line in sys.stdin:
        print(look_once(line.strip()), file=answers, flush=True)
