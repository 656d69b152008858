"""What ended a query or its JVM, and the batch in hand that may be why.

The driver's side of agent/consumer/in_hand.py, where it stands what counts as a crash.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.consumer import in_hand
from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.scripts import crashes
from assignment.types import Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(\S.*)")


class Crashes:
    """The batch in hand, in a file until it is done."""

    def __init__(self, groups: GroupStore, state_dir: str) -> None:
        self._groups, self._folder = groups, Path(state_dir)
        self.done()  # of a consumer before this one

    def begin(self, ranges: Sequence[Range], alone: int, letters: int) -> None:
        batch = in_hand.BatchInHand(os.getpid(), tuple(ranges), alone, letters)
        in_hand.write(self._folder, batch)

    def done(self) -> None:
        in_hand.remove(self._folder)

    def count(self, why: str) -> bool:
        """Tells of a query that failed with a batch in hand. Whether that narrows down the event
        that did it. A Redis that does not answer now may be why it failed: nothing is counted.
        """
        batch = in_hand.read(self._folder, os.getpid())
        self.done()
        if batch is None:
            return False
        try:
            told = self._groups.run(crashes.crash(why, batch.alone, batch.parts, batch.letters))
            return told > 0 and batch.alone + batch.letters > 0
        except StoreUnavailable:
            return False


def jvm_was_killed(session: "SparkSession | None") -> bool:
    """By a signal from outside: no fault of the batch in hand."""
    gateway = getattr(getattr(session, "sparkContext", None), "_gateway", None)
    code = gateway.proc.poll() if gateway is not None and hasattr(gateway, "proc") else None
    return code is not None and not in_hand.is_crash(code) and code != 0


def cause_of(error: BaseException) -> str:
    """One line: of an error that carries a traceback as text, as Spark's do, the line below it that
    names the cause; else its first.
    """
    causes = TRACEBACK.findall(str(error))
    lines = causes[-1:] or str(error).splitlines() or [type(error).__name__]
    return str(lines[0])[:300]
