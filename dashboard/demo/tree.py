"""A supervised tree of processes: started in order, watched, restarted when dead, ended in reverse.

Each process is the head of its own session, so that Ctrl-C reaches the supervisor alone, and
carries the tree's mark in its environment. Should the supervisor itself be killed, the watchdog
ends the rest; should the watchdog be killed, the supervisor starts another one; should both, the
next tree with this mark ends what they left. Knows nothing of what the processes do.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from dashboard.demo import logs, processes

POLL_S = 0.1
RESTARTS_MAX = 5  # in a row, of a part that nothing can do without
RESTART_MIN_S, RESTART_MAX_S = 0.5, 30.0  # the pause before a restart; a death in a row doubles it
QUIET_S = 60.0  # who lived so long begins anew with the shortest pause
UNHEALTHY_MAX = 3  # failed checks in a row before a part that lives is restarted
HEALTH_EVERY_S = 5.0
SWEEP_GRACE_S = 2.0
ORPHANS_GRACE_S = 12.0  # an agent's grace on revoke, 8 s by default, and a little


class TreeFailed(RuntimeError):
    """A part did not start or died too often; one sentence that names it and its log."""


class StartFailed(TreeFailed):
    """A part cannot be started now; the sentence says why."""


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
    essential: bool  # without it nothing works: the tree ends when it keeps dying

    @property
    def log(self) -> Path: ...
    def start(self) -> None: ...  # raises StartFailed
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
    essential: bool = False
    popen: subprocess.Popen[bytes] | None = None
    started_ms: int = 0  # this machine's clock
    log_start: int = 0

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.touch()  # where the log is the sign of life, it begins now
        self.log_start = logs.size(self.log)
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

    @property
    def family(self) -> list[psutil.Process]:
        """Itself, then all that came from it; empty when it does not run."""
        return processes.with_children(self.pid) if self.pid else []

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
        return f"{logs.last_error(self.log, self.log_start)} (log: {self.log})"


@dataclass(slots=True, kw_only=True)
class Record:
    """What the supervisor remembers of one part, by the monotonic clock."""

    started_s: float
    deaths: int = 0  # in a row
    unhealthy: int = 0  # checks in a row
    start_at_s: float | None = None  # it is dead until then


class Tree:
    """Parts in the order of their start. `say` gets one line per thing that happens.

    `mark` is one tree's at a time: what carries it already was left by an earlier one, and is
    ended. `stopping` is set by a signal; every wait ends with Stopped then. It is a plain flag: a
    signal may come while this thread holds the lock of an Event, and would wait for it for ever.
    `lock` is an open file that the watchdog keeps open until nothing of the tree is left.
    """

    def __init__(self, say: Callable[[str], None], mark: str, lock: int | None = None) -> None:
        self.say = say
        self.parts: list[Part] = []
        self.stopping = False
        self.hurried = False
        self.mark = mark
        self.lock = lock
        self.records: dict[str, Record] = {}
        self.next_health = 0.0
        self.left_dead: tuple[Part, ...] = ()
        if processes.marked(mark):
            self.say("ending what an earlier start left behind")
            processes.end_all(mark, ORPHANS_GRACE_S)
        self.watchdog = self._start_watchdog()
        os.environ[processes.MARK] = self.mark

    def _start_watchdog(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dashboard.demo.watchdog", self.mark, str(ORPHANS_GRACE_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=() if self.lock is None else (self.lock,),
            env={k: v for k, v in os.environ.items() if k != processes.MARK},
            start_new_session=True,
            cwd=Path(__file__).resolve().parent.parent.parent,
        )

    def stop_on_signals(self) -> None:
        """The first SIGINT or SIGTERM ends the tree in order, the second at once."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.hurried, self.stopping = self.stopping, True

    def start(self, part: Part, wait: bool = True) -> None:
        """Starts it, and waits until it is ready. Raises TreeFailed, Stopped."""
        began = time.monotonic()
        self.say(f"{part.name}: starting")
        self.parts.append(part)
        self.records[part.name] = Record(started_s=began)
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
        if self.watchdog.poll() is not None:
            self.say("watchdog: ended, restarting")
            self.watchdog = self._start_watchdog()
        check_health = time.monotonic() >= self.next_health
        if check_health:
            self.next_health = time.monotonic() + HEALTH_EVERY_S
        for part in tuple(self.parts):
            if part is not leave_out and part not in self.left_dead:
                self._look_at(part, check_health)
        self.pause(POLL_S)

    def pause(self, seconds: float) -> None:
        """So short that nobody minds when a signal comes in it. Raises Stopped."""
        if not self.stopping:
            time.sleep(seconds)
        if self.stopping:
            raise Stopped

    def _look_at(self, part: Part, check_health: bool) -> None:
        record = self.records[part.name]
        if check_health:
            logs.bound(part.log)
        if record.start_at_s is not None:
            if time.monotonic() >= record.start_at_s:
                self._start_again(part, record)
        elif (code := part.exit_code()) is not None:
            self._ended(part, code)
        elif check_health:
            record.unhealthy = 0 if part.healthy() else record.unhealthy + 1
            if record.unhealthy >= UNHEALTHY_MAX:
                part.ask_to_end()
                part.stop(patient=False)
                self._died(part, "does not answer")

    def _ended(self, part: Part, code: int) -> None:
        done = part.is_done(code)
        if done:
            self.parts.remove(part)
            self.say(f"{part.name}: done: {part.why()}")
        elif done is not None:
            said = f": {part.why()}" if code > 0 else ""  # a signal leaves no word in its log
            self._died(part, f"ended with {code}{said}")

    def _died(self, part: Part, reason: str) -> None:
        record, now_s = self.records[part.name], time.monotonic()
        record.deaths = 1 if now_s - record.started_s > QUIET_S else record.deaths + 1
        if part.essential and record.deaths > RESTARTS_MAX:
            raise TreeFailed(f"{part.name} died {record.deaths} times: {reason}")
        pause_s = restart_pause_s(record.deaths)
        record.start_at_s, record.unhealthy = now_s + pause_s, 0
        self.say(f"{part.name}: restarting in {pause_s:.1f} s, for it {reason}")

    def _start_again(self, part: Part, record: Record) -> None:
        record.start_at_s, record.started_s = None, time.monotonic()
        try:
            part.start()
        except StartFailed as error:
            self._died(part, str(error))

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
        self.stopping = True
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
        os.environ.pop(processes.MARK, None)


def is_over(part: Part) -> bool:
    """Whether it has ended, and it is known whether it may."""
    code = part.exit_code()
    return code is not None and part.is_done(code) is not None


def restart_pause_s(deaths: int) -> float:
    """Drawn by lot from the upper half: what died together does not start together."""
    longest = min(RESTART_MIN_S * 2.0 ** min(deaths - 1, 16), RESTART_MAX_S)
    return longest * random.uniform(0.5, 1.0)
