"""`python3 manage.py redis_check --json`: a Redis that forgets, fails over, hangs or lies about the
time, and who misbehaves beside it: is anything lost, doubled, moved, or gone without a word?

Runs of its own with flights flowing all the time. Exit 0: every step held; 1: one did not; 3: the
check itself could not judge one.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from dashboard.evaluation.checks.redis_judge import Step, exit_code, faults_of
from dashboard.evaluation.checks.redis_trees import STEPS, steps_of
from dashboard.evaluation.judge import HELD
from dashboard.evaluation.runner import EvaluationCommand, Found, add_seed, add_steps, folder
from dashboard.management.arguments import say


class Command(EvaluationCommand):
    help = "Strikes the Redis of a run of its own, and counts what was lost, doubled and moved."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_steps(parser, STEPS)
        parser.add_argument("--out", type=folder, help="folder for steps.json and the logs")
        add_seed(parser, "of who is hurt")

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        self.steps: list[Step] = []
        self.out: Path | None = options["out"]
        for step in steps_of(options["steps"], options["seed"], self.out):
            self.steps.append(step)
            for text in faults_of(step) or [f"{step.name}: held"]:
                say(text)
        return self.ended_early("")

    def ended_early(self, why: str) -> tuple[Found, int]:
        """What was judged until then counts."""
        code = exit_code(self.steps, why)
        answer = {"steps": [asdict(step) for step in self.steps], "ok": code == HELD}
        if self.out:
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / "steps.json").write_text(json.dumps(answer, indent=2))
        return answer, code
