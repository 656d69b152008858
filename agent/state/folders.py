"""A folder for the state of one agent's partitions: numbered, locked for as long as it is used.

A new process takes the first free one, so that the replicas of the one before it are still of use
(LMDB files whose content is checked against the changelog, pipeline.md section 4).
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from agent.private import make_own

AGENTS_MAX = 256  # on one machine under one root
ORPHAN_WAIT_S = 10.0  # a consumer ends within a lease of its agent's death
POLL_S = 0.1


class StateDirUnusable(OSError):
    """The text names the folder and the reason."""


def claim_state_dir(root: Path, stop: Callable[[], bool]) -> tuple[Path, int]:
    """(folder, open file that holds it). The lock ends with the last process that has the file
    open: a consumer that inherits it keeps the folder until it is gone too. Where only such a
    consumer is left, its end is waited for: a second folder would begin with nothing. Raises
    StateDirUnusable.
    """
    try:
        for number in range(AGENTS_MAX):
            folder = root / f"agent-{number}"
            make_own(folder, closed=True)
            held = os.open(folder / "held", os.O_RDWR | os.O_CREAT, 0o600)
            if _claimed(held, stop):
                os.ftruncate(held, 0)
                os.pwrite(held, str(os.getpid()).encode(), 0)
                return folder, held
            os.close(held)
    except OSError as error:
        raise StateDirUnusable(f"--state-dir {root} cannot be used: {error.strerror}") from error
    raise StateDirUnusable(f"--state-dir {root} is in use by {AGENTS_MAX} agents")


def _claimed(held: int, stop: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + ORPHAN_WAIT_S
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if _agent_lives(held) or stop() or time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)


def _agent_lives(held: int) -> bool:
    """Whether who claimed it last is there; True also when nobody can tell."""
    try:
        os.kill(int(os.pread(held, 20, 0)), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OSError):
        return True
    return True
