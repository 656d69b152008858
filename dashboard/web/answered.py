"""A web process that is asked more than it can answer looks like one that hangs: a question from
outside waits in the same queue. So it says by a file's time that it answers, whomever it may be.
"""

import os
import time
from pathlib import Path

VARIABLE = "EVENKEEL_ANSWERED"  # the file; whoever starts the process sets it
TOUCH_EVERY_S = 1.0


class Answered:
    """`now` is called at the end of every answer, from one thread. A file that cannot be touched is
    left as it is: whoever looks at it asks the process too.
    """

    def __init__(self, file: Path | None) -> None:
        self._file, self._next_s = file, 0.0

    @classmethod
    def from_environment(cls) -> "Answered":
        given = os.environ.get(VARIABLE)
        return cls(Path(given) if given else None)

    def now(self) -> None:
        now_s = time.monotonic()
        if self._file is None or now_s < self._next_s:
            return
        self._next_s = now_s + TOUCH_EVERY_S
        try:
            self._file.touch()
        except OSError:
            self._file = None


def lately(file: Path, within_s: float) -> bool:
    """Whether its process answered so lately, as this machine's clock says; what cannot be seen or
    is ahead of it says nothing.
    """
    try:
        return 0 <= time.time() - file.stat().st_mtime < within_s
    except OSError:
        return False
