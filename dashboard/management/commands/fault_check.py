"""`python3 manage.py fault_check --json`: what each kind of fault costs, measured at the locks.

A run of its own, with flights flowing all the time. Exit 0 only when every step was right.
"""

import json
import secrets
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dashboard.demo.options import Refused
from dashboard.demo.tree import Stopped, TreeFailed
from dashboard.evaluation.checks.faults import STEPS, Faults, faults_of
from dashboard.evaluation.system import FLIGHTS_IN_ALL, add_steps, own_run, speed_for
from dashboard.management.arguments import say, whole

FLOW_S = 1_800.0  # all flights of the year take so long, which is longer than the steps
STOP_S = 60.0


class Command(BaseCommand):
    help = "Kills, suspends and restarts parts of a run of its own, and measures what that did."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object")
        add_steps(parser, STEPS)
        parser.add_argument("--seed", type=whole(0, 2**31), default=secrets.randbelow(2**31))

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            steps, problems = check(options["steps"], options["seed"])
        except Stopped:
            sys.exit("evenkeel: asked to end")
        except (Refused, TreeFailed) as error:
            sys.exit(f"evenkeel: {error}")
        problems += [text for step in steps for text in faults_of(step)]
        for text in problems:
            say(f"wrong: {text}")
        found = {"steps": steps, "ok": not problems}
        self.stdout.write(json.dumps(found) if options["json"] else as_text(found))
        sys.exit(0 if found["ok"] else 1)


def check(names: list[str], seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """The steps' numbers, and what was wrong beside them. Raises Refused, TreeFailed, Stopped."""
    with own_run(say, seed, speed=speed_for(FLIGHTS_IN_ALL, FLOW_S)) as run:
        run.start()
        faults = Faults(run)
        for name in names:
            STEPS[name](faults)
        acknowledged = run.end_flow()
        run.wait_processed(acknowledged)
        run.demo.wait_settled()
        windows = run.demo.options.data / "steps.json"
        windows.write_text(json.dumps([asdict(window) for window in faults.windows]))
        found = run.evaluate("--acknowledged", str(run.acknowledged), "--steps", str(windows))
    problems = [*faults.problems, *found["faults"]]
    if found["overlap_ms"]:
        problems.append(f"two members owned a partition: overlap_ms is {found['overlap_ms']}")
    return found["steps"], problems


def as_text(found: dict[str, Any]) -> str:
    lines = [
        "  ".join(f"{name} {value}" for name, value in step.items()) for step in found["steps"]
    ]
    return "\n".join([*lines, f"ok: {found['ok']}"])
