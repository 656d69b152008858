"""Files that processes share: locks that end with their holder, secrets of their owner."""

import fcntl
import os
import time
from pathlib import Path

POLL_S = 0.1


def lock_file(path: Path, wait_s: float) -> int | None:
    """The open file, locked; None when somebody still has it after that time.

    The kernel lets go of the lock with the last process that has this file open: a child that
    inherits it holds it for exactly as long as it lives. Raises OSError.
    """
    held = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return held
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(held)
                return None
            time.sleep(POLL_S)


def write_private(path: Path, text: str) -> None:
    """Readable by its owner only from the first byte on; complete or not there."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with open(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)
