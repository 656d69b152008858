"""Starts, watches, restarts and stops the consumer's process. Knows nothing of what it does.

The consumer leads a process group of its own. SIGTERM goes to the leader alone, as the request to
finish the batch in hand (a JVM beside it would drop the batch at once); SIGKILL goes to the group.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

RESTART_MIN_MS = 500  # the first pause before a restart; each failed start doubles it
RESTART_MAX_MS = 30_000
REAP_TIMEOUT_S = 5.0  # a killed process is gone within milliseconds


@dataclass(frozen=True, slots=True)
class Exited:
    """The run with that number ended; a negative code is the signal that ended it."""

    run: int
    code: int


class ConsumerUnstartable(OSError):
    """The command cannot be run at all; the text names it."""


def restart_pause_ms(failures: int) -> int:
    """Before the restart after that many starts in a row that never got ready."""
    return int(min(RESTART_MIN_MS * 2 ** min(failures, 16), RESTART_MAX_MS))


@dataclass(slots=True)
class Supervisor:
    """`deliver` is called in a thread when a run ends."""

    command: Sequence[str]
    environ: Mapping[str, str]
    deliver: Callable[[Exited], None]
    keep_open: Sequence[int] = ()
    run: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Raises ConsumerUnstartable."""
        try:
            self._process = subprocess.Popen(
                self.command,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=self.keep_open,
            )
        except OSError as error:
            raise ConsumerUnstartable(
                f"the consumer {self.command[0]!r} cannot be started: {error.strerror}"
            ) from error
        self.run += 1
        arguments = (self.run, self._process)
        threading.Thread(target=self._wait, args=arguments, name="waiter", daemon=True).start()

    def ask_to_end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """The whole group, at once. (What an ended leader left behind is killed when it ends.)"""
        if self._process is not None and self._process.returncode is None:
            _kill_group(self._process.pid)

    def wait_gone(self) -> None:
        """After kill. Bounded: a process that hangs in the kernel is left to init."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(REAP_TIMEOUT_S)

    def _wait(self, run: int, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        _kill_group(process.pid)
        self.deliver(Exited(run, code))


def _kill_group(group: int) -> None:
    """The leader's pid is not given anew while its group has a process, so nobody else is hit."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
