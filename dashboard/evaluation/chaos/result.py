"""The answer of one run: the verdict with its figures, and what is kept of it in a folder."""

import json
from pathlib import Path
from typing import Any

from dashboard.evaluation.chaos.figures import figures
from dashboard.evaluation.chaos.history import History, save
from dashboard.evaluation.chaos.judge import Verdict
from dashboard.evaluation.chaos.report import report

RESULT, FIGURES, REPORT = "result.json", "figures.json", "report.html"


def result(history: History, verdict: Verdict, measured: dict[str, Any]) -> dict[str, Any]:
    asked, effects = history.asked, verdict.effects
    return {
        "held": verdict.held,
        "vacuous": verdict.vacuous,
        "healed": verdict.healed,
        "faults": [
            {"name": f.name, "victims": list(f.victims), "at_ms": f.at_ms - history.began_ms}
            for f in history.faults
        ],
        "coordination": asked.coordination,
        "strategy": asked.strategy,
        "seed": asked.seed,
        "violations": list(verdict.violations),
        "recovered_ms": verdict.recovered_ms,
        "bound_ms": asked.bound_ms,
        "moves": measured["moves"],
        "avoidable_moves": measured["avoidable_moves"],
        "unaffected_paused": measured["unaffected_paused"],
        "refused_commits": measured["refused_commits"],
        "lost": len(effects.lost),
        "doubled": len(effects.doubled),
        "destroyed": len(effects.destroyed),
        "balance_degree": measured["balance_degree"],
        "stickiness": measured["stickiness"],
    }


def judged(history: History, verdict: Verdict) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer, and every figure."""
    measured = figures(history, verdict.recovered_ms)
    return result(history, verdict, measured), measured


def keep(history: History, verdict: Verdict, out: Path) -> None:
    """All raw data, the answer, the figures and the report."""
    save(history, out)
    write(history, verdict, out)


def write(history: History, verdict: Verdict, out: Path) -> None:
    found, measured = judged(history, verdict)
    (out / RESULT).write_text(json.dumps(found, indent=1))
    (out / FIGURES).write_text(json.dumps(measured, indent=1))
    (out / REPORT).write_text(report(history, found, measured))
