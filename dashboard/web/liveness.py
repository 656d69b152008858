"""The liveness file of a web process: its modification time is when it last answered a request.

An overloaded process looks like one that hangs, for a probe waits in the same queue as every other
request. The file tells them apart without asking.
"""

import os
import time
from pathlib import Path

VARIABLE = "EVENKEEL_LIVENESS_FILE"  # set by whoever starts the process
TOUCH_EVERY_S = 1.0


class LivenessFile:
    """`note_answer` is called at the end of every answer, by one thread. A file that cannot be
    touched is given up: whoever looks at it probes the process too.
    """

    def __init__(self, file: Path | None) -> None:
        self._file, self._next_s = file, 0.0

    @classmethod
    def from_environment(cls) -> "LivenessFile":
        path = os.environ.get(VARIABLE)
        return cls(Path(path) if path else None)

    def note_answer(self) -> None:
        now_s = time.monotonic()
        if self._file is None or now_s < self._next_s:
            return
        self._next_s = now_s + TOUCH_EVERY_S
        try:
            self._file.touch()
        except OSError:
            self._file = None


def is_fresh(file: Path, age_max_s: float) -> bool:
    """Whether the process answered within the last `age_max_s` seconds of this machine's clock. A
    file that cannot be read, or whose time is ahead of the clock, is not fresh.
    """
    try:
        return 0 <= time.time() - file.stat().st_mtime < age_max_s
    except OSError:
        return False
