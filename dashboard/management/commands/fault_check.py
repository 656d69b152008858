"""`python3 manage.py fault_check --json`: what each kind of fault costs, measured at the locks.

A run of its own, with flights flowing all the time. With `--redis cluster` on a Redis Cluster,
whose nodes fail and whose slots move. Exit 0 only when every step was right.
"""

from typing import Any

from django.core.management.base import CommandParser

from dashboard.evaluation.checks.cluster_faults import ON_CLUSTER
from dashboard.evaluation.checks.faults import ON_ONE, check
from dashboard.evaluation.judge import VIOLATED
from dashboard.evaluation.runner import (
    EvaluationCommand,
    Found,
    add_seed,
    add_steps,
    bad_input,
    told,
)

KINDS = {"one": ON_ONE, "cluster": ON_CLUSTER}
STEPS = tuple(dict.fromkeys((*ON_ONE.steps, *ON_CLUSTER.steps)))


class Command(EvaluationCommand):
    help = "Kills, suspends and restarts parts of a run of its own, and measures what that did."
    failed = VIOLATED

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_steps(parser, STEPS)
        add_seed(parser, "of the run")
        parser.add_argument("--redis", choices=KINDS, default="one", help="one, or a cluster")
        parser.add_argument("--light", action="store_true", help="consumers without Spark")

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        kind = KINDS[options["redis"]]
        asked: list[str] = options["steps"]
        names = [name for name in asked if name in kind.steps]
        if names != asked != list(STEPS):
            bad_input(f"--redis {options['redis']} has the steps {', '.join(kind.steps)}")
        return told(*check(kind, names, options["seed"], light=options["light"]))
