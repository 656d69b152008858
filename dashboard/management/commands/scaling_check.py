"""`python3 manage.py scaling_check --json`: what it costs to change the number of consumers,
measured at the locks and commits.

A run of its own with learners and one without, with events flowing all the time. Exit 0 only when
every step was right.
"""

from typing import Any

from django.core.management.base import CommandParser

from dashboard.evaluation.checks.scaling import STEPS
from dashboard.evaluation.checks.scaling_runs import Asked, check
from dashboard.evaluation.judge import VIOLATED
from dashboard.evaluation.runner import EvaluationCommand, Found, add_seed, add_steps, told
from dashboard.management.arguments import whole

KEYS_IN_ALL = 200_000  # at least, when nothing else is asked for


class Command(EvaluationCommand):
    help = "Adds, drains and kills consumers of a run of its own, and measures what paused."
    failed = VIOLATED

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--keys", type=whole(1, 10_000_000), help="at least so many in each partition"
        )
        parser.add_argument("--partitions", type=whole(2, 1_000), default=12)
        add_steps(parser, STEPS)
        add_seed(parser, "of who is hurt")

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        partitions = options["partitions"]
        keys = options["keys"] or -(-KEYS_IN_ALL // partitions)
        return told(*check(Asked(keys, partitions, tuple(options["steps"]), options["seed"])))
