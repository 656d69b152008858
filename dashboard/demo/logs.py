"""Logs of the tree's parts: bounded, and read for the line that says why a part ended."""

import re
import shutil
from pathlib import Path

BYTES_MAX = 20_000_000  # of one log; one older piece of as much is kept beside it
TAIL_BYTES = 16_384
ERROR = re.compile(
    r"\b(ERROR|CRITICAL|FATAL)\b"  # a level of logging
    r"|^[A-Za-z_][\w.]*(Error|Exception|Unavailable|Refused)\b"  # the sentence below a traceback
)


def bound(log: Path) -> None:
    """Its writer has it open for appending and goes on in the emptied file."""
    if log.exists() and log.stat().st_size > BYTES_MAX:
        shutil.copyfile(log, log.with_suffix(".log.1"))
        log.open("r+").truncate(0)


def size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def last_error(log: Path, start: int = 0) -> str:
    """The last line after `start` that names an error; without one, the last that says anything."""
    if not log.exists():
        return "it said nothing"
    with log.open("rb") as file:
        file.seek(max(start if start <= size(log) else 0, size(log) - TAIL_BYTES))
        lines = [line.rstrip() for line in file.read().decode(errors="replace").splitlines()]
    said = [line for line in lines if line]
    errors = [line for line in said if ERROR.search(line)]
    return (errors or said or ["it said nothing"])[-1].strip()
