"""The answer of one run: the verdict with its figures."""

from typing import Any

from dashboard.evaluation.chaos.history import History
from dashboard.evaluation.chaos.judge import Verdict


def result(history: History, verdict: Verdict) -> dict[str, Any]:
    asked = history.asked
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
        "moves": None,
        "avoidable_moves": None,
        "unaffected_paused": None,
        "refused_commits": None,
        "lost": verdict.effects.lost,
        "doubled": verdict.effects.doubled,
        "destroyed": verdict.effects.destroyed,
        "balance_degree": None,
        "stickiness": None,
    }


def as_text(found: dict[str, Any]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in found.items())
