"""Programs beside a system that is measured, asked line by line, and what its own parts cost."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

import psutil

from dashboard.demo.parts import ROOT, RedisPart
from dashboard.demo.tree import TreeFailed
from dashboard.evaluation.beside import made
from dashboard.evaluation.system import Run
from dashboard.management.arguments import say

BEGUN_S = 300.0  # until a program says something: one waits until fifty groups are settled
MADE_S = 900.0  # 5,000 groups, one after the other, on two busy cores


@contextmanager
def program(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Any]:
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
            **(environment or {}),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def tell(process: Any, line: str) -> None:
    into: IO[str] = process.stdin
    into.write(f"{line}\n")
    into.flush()


def line_of(run: Run, process: Any, within_s: float = BEGUN_S) -> str:
    """Its next line; the system is looked after meanwhile. Raises TreeFailed."""

    def is_there() -> bool:
        return bool(select.select([process.stdout], [], [], 0)[0])

    run.wait(is_there, within_s, "a program beside the run said nothing")
    line: str = process.stdout.readline()
    if not line:
        raise TreeFailed("a program beside the run ended")
    return line


def ended(run: Run, process: Any) -> str:
    """What it says when nothing more is asked."""
    process.stdin.close()
    process.stdin = None
    return line_of(run, process)


def made_groups(run: Run, partitions: Mapping[str, int]) -> Mapping[str, str]:
    """A token of each of these new groups."""
    say(f"making {len(partitions)} groups")
    with program(made.__name__, environment=run.demo.parts.environment) as maker:
        tell(maker, json.dumps(partitions))
        maker.stdin.close()
        maker.stdin = None
        found: Mapping[str, str] = json.loads(line_of(run, maker, MADE_S))
    return found


def cpu_s(run: Run) -> Mapping[str, float]:
    """Of each part of the system with its children, since it was started."""
    return {name: cpu_of(family) for name, family in families(run).items()}


def families(run: Run) -> Mapping[str, list[psutil.Process]]:
    """The processes of each part of the system that runs: its first, and all below that."""
    found = dict[str, list[psutil.Process]]()
    for part in run.demo.tree.parts:
        pid = part.server.pid if isinstance(part, RedisPart) else getattr(part, "pid", None)
        if pid is None:
            continue
        with suppress(psutil.Error):
            found[part.name] = family_of(pid)
    return found


def family_of(pid: int) -> list[psutil.Process]:
    """Raises psutil.Error."""
    first = psutil.Process(pid)
    return [first, *first.children(recursive=True)]


def cpu_of(family: Iterable[psutil.Process]) -> float:
    """With what those of their children took that have ended."""
    spent_s = 0.0
    for one in family:
        with suppress(psutil.Error):
            times = one.cpu_times()
            spent_s += times.user + times.system + times.children_user + times.children_system
    return spent_s
