"""`python3 manage.py demo_check --kill 2 --json`: is the result right, whatever happens on the way?

A run of its own, whose result is compared with pandas. Exit 0 only when everything is right.
"""

from typing import Any

from django.core.management.base import CommandParser

from dashboard.evaluation.checks.flights import check, exit_code
from dashboard.evaluation.judge import VIOLATED
from dashboard.evaluation.runner import EvaluationCommand, Found, add_seed, folder
from dashboard.evaluation.system import FLIGHTS_IN_ALL
from dashboard.management.arguments import whole


class Command(EvaluationCommand):
    help = (
        "Kills consumers while flights flow, and compares the result with pandas, event by event."
    )
    failed = VIOLATED

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--kill", type=whole(0, 20), default=2)
        parser.add_argument("--flights", type=whole(1, FLIGHTS_IN_ALL), default=60_000)
        parser.add_argument("--out", type=folder, help="folder for result.csv and applied.csv")
        add_seed(parser, "of the random moments")

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        found = check(options["flights"], options["kill"], options["out"], options["seed"])
        return found, exit_code(found)
