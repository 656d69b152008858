"""Where the audit's chain stood, written outside the database: a line of the log and of a file.

An end that was cut off, or a whole database that was set back, leaves a chain that holds by itself;
only what was noted elsewhere tells.
"""

import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings

LINES_MAX = 2_000  # then the older half goes: the last one vouches for all before it
LINE = 4  # words

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Anchor:
    seq: int
    mac: str
    at: str  # ISO time


def read() -> list[Anchor]:
    """Oldest first; a line that was only half written is left out."""
    found = []
    for line in _lines():
        words = line.split()
        if len(words) == LINE and words[1].isdecimal():
            found.append(Anchor(int(words[1]), words[2], words[3]))
    return found


def newest() -> Anchor | None:
    """The one that goes furthest; of two for one entry that which was written first."""
    return max(read(), key=lambda anchor: anchor.seq, default=None)


def drop(seq: int, mac: str) -> bool:
    """Notes the head, unless it has not gone on. Whether it did. Raises OSError.

    To be asked for a chain that still has the newest (chain.anchor): else that one would be hidden.
    """
    last = newest()
    if seq <= (last.seq if last else 0):
        return False
    at = datetime.now(UTC).isoformat(timespec="seconds")
    _bound()
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    with open(os.open(settings.AUDIT_ANCHORS, flags, 0o600), "a") as file:
        file.write(f"anchor {seq} {mac} {at}\n")
        file.flush()
        os.fsync(file.fileno())
    log.info("audit anchor seq=%d mac=%s", seq, mac)
    return True


def _lines() -> list[str]:
    try:
        text: str = settings.AUDIT_ANCHORS.read_text()
    except FileNotFoundError:
        return []
    return text.splitlines()


def _bound() -> None:
    lines = _lines()
    if len(lines) < LINES_MAX:
        return
    made = settings.AUDIT_ANCHORS.with_suffix(f".{os.getpid()}")
    with open(os.open(made, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write("".join(f"{line}\n" for line in lines[-LINES_MAX // 2 :]))
    made.replace(settings.AUDIT_ANCHORS)
