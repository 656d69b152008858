"""A folder for the state of one agent's partitions: numbered, locked for as long as it is used.

A new process takes the first free one, so that the replicas of the one before it are still of use
(LMDB files whose content is checked against the changelog, pipeline.md section 4).
"""

import fcntl
import os
from pathlib import Path

AGENTS_MAX = 256  # on one machine under one root


class StateDirUnusable(OSError):
    """The text names the folder and the reason."""


def claim_state_dir(root: Path) -> tuple[Path, int]:
    """(folder, open file that holds it). The lock ends with the last process that has the file
    open: a consumer that inherits it keeps the folder until it is gone too. Raises
    StateDirUnusable.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(AGENTS_MAX):
            folder = root / f"agent-{number}"
            folder.mkdir(mode=0o700, exist_ok=True)
            held = os.open(folder / "held", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(held)
                continue
            return folder, held
    except OSError as error:
        raise StateDirUnusable(f"--state-dir {root} cannot be used: {error.strerror}") from error
    raise StateDirUnusable(f"--state-dir {root} is in use by {AGENTS_MAX} agents")
