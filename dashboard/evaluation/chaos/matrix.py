"""Many runs one after the other, each in a process of its own, and one comparison of them.

A file has the options of one run a line, as `--fault minor-kill --seed 3 --fast`; what follows a #
is left out. Every run has its folder in the matrix' own. With seeds asked for, a line without one
is run with each.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from assignment.errors import InvalidInput
from dashboard.demo.parts import ROOT

RUN_TIMEOUT_S = 1_800
COMMAND = ("-m", "django", "chaos")  # with this very Python: manage.py would look for its own
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
SUMMARY = "matrix.json"


def lines_of(path: Path) -> list[list[str]]:
    """Raises InvalidInput, OSError."""
    texts = path.read_text().splitlines()
    found = [shlex.split(text, comments=True) for text in texts]
    lines = [words for words in found if words]
    if not lines:
        raise InvalidInput(f"{path} names no run")
    return lines


def seeded(lines: Sequence[Sequence[str]], seeds: int) -> list[list[str]]:
    """Each line that names no seed with the seeds 1, 2, 3 ..."""
    return [
        [*words, *more]
        for words in lines
        for more in ([[]] if "--seed" in words else [["--seed", str(n + 1)] for n in range(seeds)])
    ]


def run_all(
    lines: Sequence[Sequence[str]], out: Path, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """A row per line, as soon as they are all done; kept in the folder after each."""
    rows: list[dict[str, Any]] = []
    for number, words in enumerate(lines, 1):
        folder = out / f"run-{number:03d}"
        say(f"{number} of {len(lines)}: {' '.join(words)}")
        rows.append({"options": " ".join(words), "folder": folder.name, **one(words, folder)})
        (out / SUMMARY).write_text(json.dumps({"runs": rows}, indent=1))
        say(f"{number} of {len(lines)}: {verdict(rows[-1])}")
    return rows


def one(words: Sequence[str], folder: Path) -> dict[str, Any]:
    command = [sys.executable, *COMMAND, *words, "--json", "--out", str(folder)]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "progress.log").open("w") as log:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
    try:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        last = (folder / "progress.log").read_text().splitlines()[-1:]
        found = {"error": last[0] if last else "it said nothing"}
    return {"exit": done.returncode, **found}


def verdict(row: dict[str, Any]) -> str:
    words = {0: "held", 1: "VIOLATED", 2: "vacuous or not healed"}
    more = row.get("error") or "; ".join(row.get("violations") or ())
    return (
        f"{words.get(row['exit'], 'failed')}, recovered after {row.get('recovered_ms')} ms {more}"
    )
