"""`python3 manage.py fault_check --json`: what each kind of fault costs, measured at the locks.

A run of its own, with flights flowing all the time. Exit 0 only when every step was right.
"""

from typing import Any

from django.core.management.base import CommandParser

from dashboard.evaluation.checks.faults import STEPS, check
from dashboard.evaluation.judge import VIOLATED
from dashboard.evaluation.runner import EvaluationCommand, Found, add_seed, add_steps, told


class Command(EvaluationCommand):
    help = "Kills, suspends and restarts parts of a run of its own, and measures what that did."
    failed = VIOLATED

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_steps(parser, STEPS)
        add_seed(parser, "of the run")

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        return told(*check(options["steps"], options["seed"]))
