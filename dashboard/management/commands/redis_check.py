"""`python3 manage.py redis_check --json`: a Redis that forgets, fails over, hangs or lies about the
time, and who misbehaves beside it: is anything lost, doubled, moved, or gone without a word?

Runs of its own with flights flowing all the time. Exit 0: every step held; 1: one did not; 3: the
check itself could not judge one.
"""

import json
import secrets
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dashboard.demo.options import Refused
from dashboard.demo.tree import Stopped, TreeFailed
from dashboard.evaluation.checks import redis_judge
from dashboard.evaluation.checks.redis_judge import Step
from dashboard.evaluation.checks.redis_trees import STEPS, steps_of
from dashboard.evaluation.judge import HELD
from dashboard.evaluation.system import add_steps
from dashboard.management.arguments import say, whole


class Command(BaseCommand):
    help = "Strikes the Redis of a run of its own, and counts what was lost, doubled and moved."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object")
        add_steps(parser, STEPS)
        parser.add_argument("--out", type=Path, help="folder for steps.json and the logs")
        parser.add_argument("--seed", type=whole(0, 2**31), help="of who is hurt")

    def handle(self, *_: Any, **options: Any) -> None:
        seed = secrets.randbelow(2**31) if options["seed"] is None else options["seed"]
        out = options["out"].resolve() if options["out"] else None
        steps: list[Step] = []
        why = ""
        try:
            for step in steps_of(options["steps"], seed, out):
                steps.append(step)
                for text in redis_judge.faults_of(step) or [f"{step.name}: held"]:
                    say(text)
        except Stopped:
            why = "asked to end"
        except (Refused, TreeFailed) as error:
            why = str(error)
        if why:
            say(f"evenkeel: {why}")
        code = redis_judge.exit_code(steps, why)
        answer = {"steps": [asdict(step) for step in steps], "ok": code == HELD}
        if out:
            out.mkdir(parents=True, exist_ok=True)
            (out / "steps.json").write_text(json.dumps(answer, indent=2))
        self.stdout.write(json.dumps(answer) if options["json"] else as_text(answer))
        sys.exit(code)


def as_text(answer: dict[str, Any]) -> str:
    lines = [
        "  ".join(f"{name} {value}" for name, value in step.items()) for step in answer["steps"]
    ]
    return "\n".join([*lines, f"ok: {answer['ok']}"])
