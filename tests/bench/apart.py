"""Figures that are measured by programs of their own, over a Redis and a database of their own.

What cannot be measured here is a row with the reason, and never a value.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dashboard.demo.embedded_redis import EmbeddedRedis

ROOT = Path(__file__).resolve().parent.parent.parent
END_S = 30
# As the product's processes.
BEGINS = "import django; django.setup(); from dashboard import memory; memory.settle()"


class NotMeasured(Exception):
    """One sentence that says why there is no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    unit: str = "ms"
    aim: float


def rows(figures: Sequence[Figure], measure: Callable[[], Sequence[Any]]) -> list[dict[str, Any]]:
    """`measure` returns (value, what it is of) for each figure. Of those that could not be measured
    the value is None, and "error" says why.
    """
    try:
        found = [{"value": value, "of": of} for value, of in measure()]
    except NotMeasured as error:
        found = [{"value": None, "of": "not measured", "error": str(error)}] * len(figures)
    return [
        {
            "name": figure.name, "value": one.pop("value"), "unit": figure.unit, "aim": figure.aim,
            "ratio": None, "yardstick": one.pop("of"), **one,
        }
        for figure, one in zip(figures, map(dict, found), strict=True)
    ]  # fmt: skip


def rows_of(module: str) -> list[dict[str, Any]]:
    """What `figures()` of that module of tests.bench says in a process of its own: a JVM has the
    options of the first session of its process. Where it fails, a row with the reason.
    """
    program = f"import json; from tests.bench import {module} as m; print(json.dumps(m.figures()))"
    try:
        said = told(["-c", program], dict(os.environ))
    except NotMeasured as error:
        none = {"name": module, "value": None, "unit": "", "ratio": None}
        return [none | {"yardstick": "not measured", "error": str(error)}]
    found: list[dict[str, Any]] = json.loads(said.splitlines()[-1])
    return found


def values(*programs: str) -> list[float]:
    """The numbers in the `answer`."""
    return [float(word) for word in answer(*programs).split()]


def answer(*programs: str) -> str:
    """The last line of the last program, which run one after the other. Raises NotMeasured."""
    with environment() as variables:
        told(["manage.py", "migrate", "--verbosity=0"], variables)
        for program in programs:
            said = told(["-c", f"{BEGINS}; {program}"], variables)
    return said.splitlines()[-1]


def told(arguments: Sequence[str], variables: dict[str, str]) -> str:
    """What a Python process printed; what it says on stderr, its progress, is passed on. Raises
    NotMeasured with its last words.
    """
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=variables, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    last = ""
    assert process.stdout and process.stderr
    try:
        for line in process.stderr:
            sys.stderr.write(line)
            sys.stderr.flush()
            last = line.strip() or last
        said = process.stdout.read()  # a line: never so much that its writer waits for a reader
    finally:
        end(process)
    if process.returncode:
        raise NotMeasured(last.removeprefix(f"{__name__}.NotMeasured: "))
    return said


def end(process: "subprocess.Popen[str]") -> None:
    """By what a terminal sends: it ends what it started itself first."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def progress(text: str) -> None:
    """For whoever waits."""
    print(f"  {text}", file=sys.stderr, flush=True)


@contextmanager
def environment() -> Iterator[dict[str, str]]:
    """A Redis that has nothing, and what points the dashboard's processes there and to a folder."""
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder:
        redis = EmbeddedRedis(Path(folder) / "redis")
        redis.start()
        variables = {
            **os.environ,
            "REDIS_URL": redis.url,
            "EVENKEEL_DATA": folder,
            "EVENKEEL_LOG_LEVEL": "WARNING",
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
        }
        variables.pop("DATABASE_URL", None)
        try:
            yield variables
        finally:
            redis.stop()


def share(found: Sequence[float], percent: int) -> float:
    """The value that so many per cent of them do not pass."""
    ordered = sorted(found)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
