"""A supervised tree of processes: started in order, watched, restarted when dead, ended in reverse.

Each process is the head of its own session, so that Ctrl-C reaches the supervisor alone, and
carries the tree's mark in its environment. Should the supervisor itself be killed, the watchdog
ends the rest. Knows nothing of what the processes do.
"""

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dashboard.demo import processes

POLL_S = 0.1
RESTARTS_MAX = 5  # of one part within RESTART_WINDOW_S; more means that restarting does not help
RESTART_WINDOW_S = 300.0
UNHEALTHY_MAX = 3  # failed checks in a row before a part that lives is restarted
HEALTH_EVERY_S = 5.0
LOG_BYTES_MAX = 20_000_000  # of a log kept from an earlier start
SWEEP_GRACE_S = 2.0
ORPHANS_GRACE_S = 12.0  # an agent's grace on revoke, 8 s by default, and a little


class TreeFailed(RuntimeError):
    """A part did not start or died too often; one sentence that names it and its log."""


class Stopped(Exception):
    """Somebody asked the tree to end while it was waiting for something."""


def always() -> bool:
    return True


def never(code: int) -> bool | None:
    return False


def without_error(code: int) -> bool | None:
    return code == 0


class Part(Protocol):
    """One supervised thing: usually a process, Redis being a small object of its own.

    `is_done` is asked when it has ended by itself: True: it has done its work; False: it died and
    is started again; None: not known yet, asked again.
    """

    name: str
    ready_s: float
    layer: int  # parts of one layer are asked to end together

    def start(self) -> None: ...
    def exit_code(self) -> int | None: ...
    def is_done(self, code: int) -> bool | None: ...
    def ask_to_end(self) -> None: ...
    def stop(self, patient: bool) -> None: ...
    def ready(self) -> bool: ...
    def healthy(self) -> bool: ...
    def why(self) -> str: ...


@dataclass(slots=True, kw_only=True)
class Process:
    """A Part that is one process, with a log."""

    name: str
    command: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    is_ready: Callable[[], bool] = always
    is_healthy: Callable[[], bool] = always
    ready_s: float = 60.0
    stop_s: float = 10.0
    may_end: Callable[[int], bool | None] = never
    layer: int = 0
    popen: subprocess.Popen[bytes] | None = None
    started_ms: int = 0  # this machine's clock

    def start(self) -> None:
        keep_log_small(self.log)
        self.started_ms = time.time_ns() // 1_000_000
        with self.log.open("ab") as output:
            self.popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        return self.popen.pid if self.popen and self.popen.poll() is None else None

    def exit_code(self) -> int | None:
        return self.popen.poll() if self.popen else None

    def is_done(self, code: int) -> bool | None:
        return self.may_end(code)

    def ready(self) -> bool:
        return self.is_ready()

    def healthy(self) -> bool:
        return self.is_healthy()

    def ask_to_end(self) -> None:
        """Once only: to an agent a second SIGTERM means at once."""
        if self.popen is not None:
            self.popen.terminate()

    def stop(self, patient: bool) -> None:
        """After ask_to_end: waits for its end, else SIGKILL to it and all its children."""
        if self.popen is None:
            return
        if self.popen.poll() is None:
            family = processes.with_children(self.popen.pid)
            try:
                self.popen.wait(self.stop_s if patient else SWEEP_GRACE_S)
            except subprocess.TimeoutExpired:
                processes.kill([*processes.with_children(self.popen.pid), *family])
                self.popen.wait()
        self.popen = None

    def why(self) -> str:
        return f"{last_line(self.log)} (log: {self.log})"


class Tree:
    """Parts in the order of their start. `say` gets one line per thing that happens.

    `stopping` is set by a signal; every wait ends with Stopped then. `lock` is an open file that
    the watchdog keeps open until nothing of the tree is left.
    """

    def __init__(self, say: Callable[[str], None], lock: int | None = None) -> None:
        self.say = say
        self.parts: list[Part] = []
        self.stopping = threading.Event()
        self.hurried = False
        self.mark = secrets.token_hex(8)
        self.deaths: dict[str, deque[float]] = {}
        self.unhealthy: dict[str, int] = {}
        self.next_health = 0.0
        self.left_dead: tuple[Part, ...] = ()
        self.watchdog = self._start_watchdog(lock)
        os.environ[processes.MARK] = self.mark

    def _start_watchdog(self, lock: int | None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dashboard.demo.watchdog", self.mark, str(ORPHANS_GRACE_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=() if lock is None else (lock,),
            start_new_session=True,
            cwd=Path(__file__).resolve().parent.parent.parent,
        )

    def stop_on_signals(self) -> None:
        """The first SIGINT or SIGTERM ends the tree in order, the second at once."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.hurried = self.stopping.is_set()
        self.stopping.set()

    def start(self, part: Part, wait: bool = True) -> None:
        """Starts it, and waits until it is ready. Raises TreeFailed, Stopped."""
        began = time.monotonic()
        self.say(f"{part.name}: starting")
        self.parts.append(part)
        part.start()
        if not wait:
            return
        self.wait(
            lambda: is_over(part) if part.exit_code() is not None else part.ready(),
            part.ready_s,
            f"{part.name} was not ready within {part.ready_s:.0f} s",
            part,
        )
        code = part.exit_code()
        if code is not None and not part.is_done(code):
            raise TreeFailed(f"{part.name} ended while starting: {part.why()}")
        self.say(f"{part.name}: ready after {time.monotonic() - began:.1f} s")

    def wait(
        self,
        condition: Callable[[], bool],
        timeout_s: float,
        failed: str,
        of: Part | None = None,
    ) -> None:
        """Until the condition holds, restarting what dies meanwhile. Raises TreeFailed, Stopped."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise TreeFailed(f"{failed}: {of.why()}" if of else failed)
            self.turn(leave_out=of)

    def turn(self, leave_out: Part | None = None) -> None:
        """One look at every part, then a short wait. Raises TreeFailed, Stopped."""
        check_health = time.monotonic() >= self.next_health
        if check_health:
            self.next_health = time.monotonic() + HEALTH_EVERY_S
        for part in tuple(self.parts):
            if part is not leave_out and part not in self.left_dead:
                self._look_at(part, check_health)
        if self.stopping.wait(POLL_S):
            raise Stopped

    def _look_at(self, part: Part, check_health: bool) -> None:
        if (code := part.exit_code()) is not None:
            self._ended(part, code)
        elif check_health and not part.healthy():
            self.unhealthy[part.name] = self.unhealthy.get(part.name, 0) + 1
            if self.unhealthy[part.name] >= UNHEALTHY_MAX:
                part.ask_to_end()
                part.stop(patient=False)
                self._restart(part, "does not answer")
        elif check_health:
            self.unhealthy[part.name] = 0

    def _ended(self, part: Part, code: int) -> None:
        done = part.is_done(code)
        if done:
            self.parts.remove(part)
            self.say(f"{part.name}: done: {part.why()}")
        elif done is not None:
            self._restart(part, f"ended with {code}")

    def _restart(self, part: Part, reason: str) -> None:
        deaths = self.deaths.setdefault(part.name, deque())
        deaths.append(time.monotonic())
        while deaths[0] < time.monotonic() - RESTART_WINDOW_S:
            deaths.popleft()
        if len(deaths) > RESTARTS_MAX:
            raise TreeFailed(f"{part.name} died {len(deaths)} times: {part.why()}")
        self.unhealthy[part.name] = 0
        self.say(f"{part.name}: {reason}, restarting ({len(deaths)} of {RESTARTS_MAX})")
        part.start()

    @contextmanager
    def not_restarting(self, *parts: Part) -> Iterator[None]:
        """Parts stay dead meanwhile, so that their return does not blur what their death did."""
        self.left_dead = parts
        try:
            yield
        finally:
            self.left_dead = ()

    def take_out(self, part: Part) -> None:
        """Ends one part, which is no longer looked after; start() puts it back."""
        self.let_go(part)
        part.stop(patient=True)

    def let_go(self, part: Part) -> None:
        """Asks one part to end, which is no longer looked after, and does not wait for it."""
        self.parts.remove(part)
        self.say(f"{part.name}: stopping")
        part.ask_to_end()

    def stop(self) -> None:
        """Ends every part in reverse order, then whatever still carries the mark."""
        self.stopping.set()
        for layer in sorted({part.layer for part in self.parts}, reverse=True):
            parts = [part for part in reversed(self.parts) if part.layer == layer]
            self.say(f"stopping {', '.join(part.name for part in parts)}")
            for part in parts:
                part.ask_to_end()
            for part in parts:
                part.stop(patient=not self.hurried)
        self.parts.clear()
        left = processes.end_all(self.mark, SWEEP_GRACE_S)
        if left:
            self.say(f"{left} processes had to be killed")
        if self.watchdog.stdin:
            self.watchdog.stdin.close()
        self.watchdog.wait()


def is_over(part: Part) -> bool:
    """Whether it has ended, and it is known whether it may."""
    code = part.exit_code()
    return code is not None and part.is_done(code) is not None


def keep_log_small(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(log.with_suffix(".log.1"))


def last_line(log: Path) -> str:
    """The last line that says something; a traceback's last line is its sentence."""
    if not log.exists():
        return "it said nothing"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
    said = [line for line in lines if line]
    return said[-1] if said else "it said nothing"
