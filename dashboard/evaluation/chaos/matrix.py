"""Many runs, each in a process and a folder of its own, and one comparison of them.

A line of the file has the options of runs, as `--fault minor-kill,swap --coordination server,client
--fast`: one run of each combination, and with each seed where it names none. `--fault all` is every
fault; what follows a # is left out.

What the folder holds already, whole and made by the same code, is not run again: a matrix that was
ended goes on where it was.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, NoReturn

import psutil

from assignment.errors import InvalidInput
from dashboard.demo import processes
from dashboard.demo.files import lock_file
from dashboard.demo.parts import ROOT
from dashboard.demo.tree import Stopped
from dashboard.evaluation.chaos import asked as asking
from dashboard.evaluation.chaos.asked import FAULTS, Asked
from dashboard.evaluation.chaos.result import RESULT
from dashboard.evaluation.judge import FAILED, HELD, VACUOUS, VIOLATED
from dashboard.evaluation.setting import setting, today

COMMAND = ("-m", "django", "chaos")  # with this very Python: manage.py would look for its own
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
SEVERAL = ("fault", "coordination", "strategy", "consumer")
SEEDS_MAX, PARALLEL_MAX = 1_000, 64
ROW, LOG, LOCK = "row.json", "progress.log", "matrix.lock"
RUN_S = {"light": 900.0, "spark": 1_800.0}  # and as long as its fault is to last
END_S = 60.0  # for a run that is told to end
CLEAN_S = 40.0  # for the watchdog of one that was killed
POLL_S = 0.5
Say = Callable[[str], None]
Row = Mapping[str, Any]


# --- what is asked for


class _Line(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidInput(message)


def runs_of(path: Path, seeds: int) -> list[Asked]:
    """Each once, seed by seed: a matrix that is ended early has struck with every fault.

    Raises InvalidInput, OSError.
    """
    if not 1 <= seeds <= SEEDS_MAX:
        raise InvalidInput(f"seeds {seeds} is not within 1 and {SEEDS_MAX}")
    found: dict[Asked, None] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is no text in UTF-8: {error}") from error
    for number, text in enumerate(lines, 1):
        try:
            found |= dict.fromkeys(_expanded(shlex.split(text, comments=True), seeds))
        except (InvalidInput, ValueError) as error:
            raise InvalidInput(f"{path}, line {number}: {error}") from error
    if not found:
        raise InvalidInput(f"{path} names no run")
    return sorted(found, key=lambda asked: asked.seed)


def _expanded(words: Sequence[str], seeds: int) -> Iterator[Asked]:
    if not words:
        return
    parser = _Line(add_help=False, allow_abbrev=False)
    asking.add_options(parser)
    options = vars(parser.parse_args(words))
    takes_victims: tuple[str, ...] = ("fixed-", asking.STATIC)  # how such a fault begins
    if options["fault"] == "all":
        options["fault"], takes_victims = ",".join(FAULTS), ("fixed-",)
    numbers = range(1, seeds + 1) if options["seed"] is None else (options["seed"],)
    # What is empty is asked for as well: the refusal names it.
    each = [asking.split(options[name], ",") or ("",) for name in SEVERAL]
    for *values, seed in product(*each, numbers):
        one = {**options, **dict(zip(SEVERAL, values, strict=True)), "seed": seed}
        if not any(name.startswith(takes_victims) for name in one["fault"].split("+")):
            one["victims"] = ""
        yield asking.asked(one)


# --- what is there already


def folder_name(asked: Asked) -> str:
    return "_".join(word.removeprefix("--") for word in asked.options())


def stored_rows(out: Path) -> dict[Asked, Row]:
    """Of every run that ended, by whatever code. Raises OSError, ValueError."""
    found: dict[Asked, Row] = {}
    for path in sorted(out.glob(f"*/{ROW}")):
        row: dict[str, Any] = json.loads(path.read_text())
        with suppress(InvalidInput, TypeError):  # it was asked for what is not known any more
            found[Asked.of(row["asked"])] = row
    return found


def is_done(row: Row | None, code: str) -> bool:
    return row is not None and row["exit"] != FAILED and row["setting"]["code"] == code


# --- one run


def one(asked: Asked, folder: Path, stop: threading.Event, lock: int) -> Row:
    """Kept in its folder. Raises Stopped, OSError."""
    if stop.is_set():
        raise Stopped
    began_s, made_by = time.monotonic(), setting()
    folder.mkdir(exist_ok=True)
    for name in (ROW, RESULT):  # of an earlier run that does not count
        (folder / name).unlink(missing_ok=True)
    code, found = _ended(asked, folder, stop, lock)
    row = {
        "options": " ".join(asked.options()),
        "folder": folder.name,
        "asked": asked.values(),
        "setting": made_by,
        "ended_on": today(),
        "took_s": round(time.monotonic() - began_s, 1),
        "exit": code,
        **found,
    }
    fresh = folder / f"{ROW}.new"
    fresh.write_text(json.dumps(row, indent=1))
    fresh.replace(folder / ROW)
    return row


def _ended(
    asked: Asked, folder: Path, stop: threading.Event, lock: int
) -> tuple[int, Mapping[str, Any]]:
    """Its exit code and its result."""
    limit_s = RUN_S[asked.consumer] + asked.seconds
    with (folder / LOG).open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *COMMAND, *asked.options(), "--out", str(folder)],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock,),  # nobody goes on with this folder while it runs
        )
    until_s = time.monotonic() + limit_s
    while (code := waited(process)) is None:
        if stop.is_set():
            end(process)
            raise Stopped
        if time.monotonic() > until_s:
            end(process)
            return FAILED, {"error": f"it did not end within {limit_s:.0f} s"}
    try:
        found: dict[str, Any] = json.loads((folder / RESULT).read_text())
    except (OSError, ValueError):
        last = (folder / LOG).read_text().splitlines()[-1:]
        return FAILED, {"error": last[0].strip() if last else "it said nothing"}
    if code not in (HELD, VIOLATED, VACUOUS):
        return FAILED, {"error": f"it ended with {code} after its verdict", **found}
    return code, found


def waited(process: "subprocess.Popen[bytes]") -> int | None:
    try:
        return process.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return None


def end(process: "subprocess.Popen[bytes]") -> None:
    """With all that it started. In order if it still can, else its watchdog does it, else this."""
    family = processes.with_children(process.pid)
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        family += processes.with_children(process.pid)
        process.kill()
        process.wait()
    left = psutil.wait_procs(set(family), CLEAN_S)[1]
    processes.kill(left)
    psutil.wait_procs(left, processes.KILLED_S)


# --- all of them


@dataclass(slots=True)
class Matrix:
    """Every method may raise Stopped, OSError."""

    wanted: Sequence[Asked]
    out: Path
    parallel: int
    say: Say

    def run(self) -> list[Row]:
        """A row for each, in their order. Raises InvalidInput too."""
        if not 1 <= self.parallel <= PARALLEL_MAX:
            raise InvalidInput(f"parallel {self.parallel} is not within 1 and {PARALLEL_MAX}")
        self.out.mkdir(parents=True, exist_ok=True)
        lock = lock_file(self.out / LOCK, 0)
        if lock is None:
            raise InvalidInput(f"a matrix runs in {self.out} already")
        try:
            with stopping() as stop:
                return self.run_rest(stop, lock)
        finally:
            os.close(lock)

    def run_rest(self, stop: threading.Event, lock: int) -> list[Row]:
        code, stored = setting()["code"], stored_rows(self.out)
        rows = {a: stored[a] for a in self.wanted if is_done(stored.get(a), code)}
        rest = [asked for asked in self.wanted if asked not in rows]
        self.say(
            f"{len(self.wanted)} runs: {len(rows)} are skipped, this code has made them;"
            f" {sum(asked in stored for asked in rest)} that failed or that other code has made"
            " are run again"
        )
        times = Times(stored.values())
        with ThreadPoolExecutor(self.parallel) as pool:
            futures = {pool.submit(one, a, self.out / folder_name(a), stop, lock): a for a in rest}
            try:
                for future in as_completed(futures):
                    asked = futures[future]
                    rows[asked] = row = future.result()
                    times.note(row)
                    rest.remove(asked)
                    left = shown(times.of(rest) / self.parallel) if rest else "none"
                    number = len(self.wanted) - len(rest)
                    self.say(
                        f"{number} of {len(self.wanted)}: {row['options']}: {verdict(row)};"
                        f" time left: {left}"
                    )
            except BaseException:
                stop.set()
                raise
        return [rows[asked] for asked in self.wanted]


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Set by a signal: runs end in order, what they started with them."""
    stop = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class Times:
    """How long runs take, by what makes most of it."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.seen: dict[tuple[str, bool], list[float]] = defaultdict(list)
        for row in rows:
            self.note(row)

    def note(self, row: Row) -> None:
        self.seen[row["asked"]["consumer"], row["asked"]["fast"]].append(row["took_s"])

    def of(self, rest: Iterable[Asked]) -> float:
        """Seconds, one after the other. A kind that has not run yet takes as long as the others."""
        overall = mean(took for times in self.seen.values() for took in times)
        return sum(mean(self.seen.get((a.consumer, a.fast), [overall])) for a in rest)


def shown(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"about {hours} h {minutes} min" if hours else f"about {minutes} min"


def verdict(row: Row) -> str:
    words = {0: "held", 1: "VIOLATED", 2: "vacuous or not healed"}
    more = row.get("error") or "; ".join(row.get("violations") or ())
    return (
        f"{words.get(row['exit'], 'failed')}, recovered after {row.get('recovered_ms')} ms {more}"
    ).strip()
