"""Runs of chaos as the dashboard keeps them: what was asked, what came of it, and the report."""

import fcntl
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from django.conf import settings
from django.db import DatabaseError, models

from assignment.errors import InvalidInput
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.judge import VACUOUS

PROGRESS = "progress.log"
TAIL_BYTES = 4_096
ENDED = ("Z", "X")  # states of a process
VERDICTS = {0: "held", 1: "violated", 3: "failed"}


class Evaluation(models.Model):
    """`options`: of chaos.asked.Asked. `pid` with `pid_started`: the process that runs it."""

    asked_at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=150, blank=True)
    faults = models.CharField(max_length=1_000)
    coordination = models.CharField(max_length=10)
    strategy = models.CharField(max_length=50)
    options = models.JSONField()
    pid = models.PositiveIntegerField(null=True)
    pid_started = models.FloatField(null=True)
    exit_code = models.PositiveSmallIntegerField(null=True)  # None: it has not ended
    result = models.JSONField(null=True)

    class Meta:
        ordering = ("-asked_at", "-id")

    def __str__(self) -> str:
        return f"{self.faults} {self.pk}"

    @property
    def folder(self) -> Path:
        """Raw data, report and progress."""
        return Path(settings.DATA) / "evaluations" / str(self.pk)

    @property
    def is_running(self) -> bool:
        if self.exit_code is not None or self.pid is None:
            return False
        return started(self.pid) == self.pid_started

    @property
    def verdict(self) -> str:
        if self.exit_code is None:
            return "running" if self.is_running else "failed"
        if self.exit_code == VACUOUS:
            return "vacuous" if (self.result or {}).get("healed", True) else "not healed"
        return VERDICTS.get(self.exit_code, "failed")

    @property
    def why(self) -> str:
        """What the verdict is not enough to say."""
        error = str((self.result or {}).get("error", ""))
        if error or self.exit_code is not None:
            return error
        return self.said if self.is_running else f"its process ended; last: {self.said or '—'}"

    @property
    def asked(self) -> Asked | None:
        """None: another version asked for what is not known any more."""
        try:
            return Asked.of(self.options)
        except (InvalidInput, TypeError):
            return None

    @property
    def command(self) -> str:
        return self.asked.command() if self.asked else ""

    @property
    def said(self) -> str:
        """The last line of its progress."""
        try:
            with (self.folder / PROGRESS).open("rb") as log:
                log.seek(max(0, log.seek(0, 2) - TAIL_BYTES))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""

    @property
    def has_report(self) -> bool:
        return (self.folder / "report.html").exists()


def of(pk: int | None) -> Evaluation | None:
    return None if pk is None else Evaluation.objects.get(pk=pk)


def begin(asked: Asked, actor: str) -> Evaluation | None:
    """Of this process. None: this installation has no tables yet."""
    try:
        row = made(asked, actor)
        note_process(row, os.getpid())
    except DatabaseError:
        return None
    return row


def made(asked: Asked, actor: str) -> Evaluation:
    row = Evaluation.objects.create(
        actor=actor,
        faults="+".join(asked.faults),
        coordination=asked.coordination,
        strategy=asked.strategy,
        options=asked.values(),
    )
    row.folder.mkdir(parents=True, exist_ok=True)
    return row


def started(pid: int) -> float | None:
    """When it began, in ticks since the machine did: with its pid, one process. None: it has
    ended, even if its parent has not asked for it yet. Pages ask, and a dashboard without the demo
    has no psutil.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ENDED else float(fields[19])


def note_process(row: Evaluation, pid: int) -> None:
    row.pid, row.pid_started = pid, started(pid)
    row.save(update_fields=["pid", "pid_started"])


def end(pk: int, exit_code: int, result: dict[str, Any]) -> None:
    Evaluation.objects.filter(pk=pk).update(exit_code=exit_code, result=result)


def start(asked: Asked, actor: str, about_to: Callable[[Evaluation], object]) -> Evaluation:
    """In a session of its own, and without the mark of this dashboard's tree: it goes on when this
    process ends. Its progress goes to its folder. One at a time: what runs beside another one is
    late for no fault of its own. `about_to` hears of it before it begins. Raises InvalidInput,
    OSError.
    """
    with alone():
        running = [row for row in Evaluation.objects.filter(exit_code=None) if row.is_running]
        if running:
            raise InvalidInput(f"{running[0].faults} runs already: wait until it has ended")
        row = made(asked, actor)
        about_to(row)
        words = ("chaos", *asked.options(), "--evaluation", str(row.pk))
        with (row.folder / PROGRESS).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "django", *words],
                cwd=settings.ROOT,
                env={**own_environment(), "PYTHONPATH": str(settings.ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        note_process(row, process.pid)
    return row


@contextmanager
def alone() -> Iterator[None]:
    """Of those who start a run, in all processes of this dashboard."""
    folder = Path(settings.DATA) / "evaluations"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def own_environment() -> dict[str, str]:
    """Without the mark of the tree that the dashboard belongs to, which would end the run too."""
    from dashboard.demo.processes import MARK  # needs what only the demo has

    values = {name: value for name, value in os.environ.items() if name != MARK}
    return {**values, "DJANGO_SETTINGS_MODULE": "dashboard.settings"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All runs that differ by their seeds alone. `size`: what they were run with."""

    faults: str
    size: str
    coordination: str
    strategy: str
    runs: int
    held: int
    recovered_ms: float | None
    moves: float | None
    avoidable_moves: float | None
    unaffected_paused: float | None
    balance_degree: float | None
    stickiness: float | None


def compared(rows: Iterable[Evaluation]) -> list[Compared]:
    """Coordinations and strategies under one fault and size stand one below the other: medians,
    and the greatest share of unaffected partitions that paused.
    """
    groups: dict[tuple[str, str, str, str], list[Evaluation]] = defaultdict(list)
    for row in rows:
        asked = row.asked
        if asked and row.result and row.exit_code in (0, 1):
            groups[row.faults, size_of(asked), row.coordination, row.strategy].append(row)
    return [_compared(*key, groups[key]) for key in sorted(groups)]


def size_of(asked: Asked) -> str:
    timings = "fast" if asked.fast else "default timings"
    number, agents = asked.partitions, f"{asked.agents} agents"
    return f"{agents}, {number} partitions, {asked.consumer}, {timings}, {asked.seconds} s"


def _compared(
    faults: str, size: str, coordination: str, strategy: str, rows: Sequence[Evaluation]
) -> Compared:
    def known(name: str) -> list[float]:
        return [r.result[name] for r in rows if r.result and r.result.get(name) is not None]

    def middle(name: str) -> float | None:
        values = known(name)
        return round(median(values), 3) if values else None

    return Compared(
        faults=faults,
        size=size,
        coordination=coordination,
        strategy=strategy,
        runs=len(rows),
        held=sum(row.exit_code == 0 for row in rows),
        recovered_ms=middle("recovered_ms"),
        moves=middle("moves"),
        avoidable_moves=middle("avoidable_moves"),
        unaffected_paused=max(known("unaffected_paused"), default=None),
        balance_degree=middle("balance_degree"),
        stickiness=middle("stickiness"),
    )
