"""Runs of chaos as the dashboard keeps them: what was asked, what came of it, and the report."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from django.conf import settings
from django.db import DatabaseError, models

from dashboard.evaluation.chaos.asked import Asked

PROGRESS = "progress.log"
TAIL_BYTES = 4_096
VERDICTS = {0: "held", 1: "violated", 2: "vacuous", 3: "failed"}


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
        return VERDICTS.get(self.exit_code, "failed")

    @property
    def command(self) -> str:
        return Asked.of(self.options).command()

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
    """When it began, in ticks since the machine did: with the pid it names one process. None: it is
    gone. Pages ask, and a dashboard without the demo has no psutil.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return float(stat.rpartition(")")[2].split()[19])


def note_process(row: Evaluation, pid: int) -> None:
    row.pid, row.pid_started = pid, started(pid)
    row.save(update_fields=["pid", "pid_started"])


def end(pk: int, exit_code: int, result: dict[str, Any]) -> None:
    Evaluation.objects.filter(pk=pk).update(exit_code=exit_code, result=result)


def start(asked: Asked, actor: str) -> Evaluation:
    """In a session of its own: no process of the dashboard, which it may strike, is its parent's
    child for long. Its progress goes to its folder.
    """
    row = made(asked, actor)
    with (row.folder / PROGRESS).open("wb") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "django",
                "chaos",
                *asked.options(),
                "--evaluation",
                str(row.pk),
            ],
            cwd=settings.ROOT,
            env={**own_environment(), "PYTHONPATH": str(settings.ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    note_process(row, process.pid)
    return row


def own_environment() -> dict[str, str]:
    """Without the mark of the tree that the dashboard belongs to, which would end the run too."""
    from dashboard.demo.processes import MARK  # needs what only the demo has

    values = {name: value for name, value in os.environ.items() if name != MARK}
    return {**values, "DJANGO_SETTINGS_MODULE": "dashboard.settings"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All runs under one coordination and strategy."""

    coordination: str
    strategy: str
    runs: int
    held: int
    recovered_ms: float | None
    moves: float | None
    avoidable_moves: float | None
    unaffected_paused: float | None
    stickiness: float | None


def compared(rows: Iterable[Evaluation]) -> list[Compared]:
    """Medians, side by side; the greatest share of unaffected partitions that paused."""
    ended = [row for row in rows if row.result and row.exit_code in (0, 1)]
    modes = sorted({(row.coordination, row.strategy) for row in ended})
    return [
        _compared(mode, [r for r in ended if (r.coordination, r.strategy) == mode])
        for mode in modes
    ]


def _compared(mode: tuple[str, str], rows: Sequence[Evaluation]) -> Compared:
    def known(name: str) -> list[float]:
        return [r.result[name] for r in rows if r.result and r.result.get(name) is not None]

    def middle(name: str) -> float | None:
        values = known(name)
        return round(median(values), 3) if values else None

    return Compared(
        coordination=mode[0],
        strategy=mode[1],
        runs=len(rows),
        held=sum(row.exit_code == 0 for row in rows),
        recovered_ms=middle("recovered_ms"),
        moves=middle("moves"),
        avoidable_moves=middle("avoidable_moves"),
        unaffected_paused=max(known("unaffected_paused"), default=None),
        stickiness=middle("stickiness"),
    )
