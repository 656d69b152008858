"""The batch that a consumer has in hand, in a file that outlives it, and what counts as a crash.

Written by the consumer before it processes a batch, removed when that was committed or given up.
A crash is a consumer that ended with a batch in hand by its own fault: by an error (any exit code
but those below) or by a signal that a process brings upon itself (SIGSEGV, SIGABRT, SIGBUS, SIGILL,
SIGFPE; also as 128 + number, as shells tell it). A query of Spark that fails counts the same; its
consumer tells that itself. SIGKILL, SIGTERM, SIGINT, SIGHUP and the like come from outside (a
person, the agent, the kernel short of memory) and count for nothing, nor does a consumer that the
agent asked to end. (Of a Python worker of Spark nobody can tell by what it ended: it counts. That
a partition is halted takes many such ends, each with nothing else in hand.) Knows no Spark.
"""

import contextlib
import signal
from dataclasses import dataclass
from pathlib import Path

import msgspec

from assignment.types import Range

EXIT_ENDED, EXIT_FAILED, EXIT_NO_AGENT, EXIT_LEASE, EXIT_JVM_KILLED = 0, 1, 3, 4, 5
NO_CRASH = frozenset((EXIT_ENDED, EXIT_NO_AGENT, EXIT_LEASE, EXIT_JVM_KILLED))
OWN_SIGNALS = frozenset(
    (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
)
SHELL_SIGNAL = 128
FILE = "in_hand.json"


@dataclass(frozen=True, slots=True)
class BatchInHand:
    """`pid` of its consumer; `alone`: entries of its only partition, if processed for suspicion;
    `letters`: dead letters of it that are replayed.
    """

    pid: int
    parts: tuple[Range, ...]
    alone: int = 0
    letters: int = 0


def is_crash(code: int) -> bool:
    """By an exit code as the supervisor has it: negative for a signal."""
    number = -code if code < 0 else code - SHELL_SIGNAL
    if code < 0 or code > SHELL_SIGNAL:
        return number in OWN_SIGNALS
    return code not in NO_CRASH


def write(folder: Path, batch: BatchInHand) -> None:
    """Where the disk refuses (full), this batch's end is not counted: nothing else is lost."""
    fresh = folder / f"{FILE}.fresh"
    remove(folder)
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.write_bytes(msgspec.json.encode(batch))
        fresh.rename(folder / FILE)


def remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        (folder / FILE).unlink()


def read(folder: Path, pid: int) -> BatchInHand | None:
    """None: that consumer had none, or what is there cannot be read."""
    try:
        found = msgspec.json.decode((folder / FILE).read_bytes(), type=BatchInHand)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found.pid == pid else None
