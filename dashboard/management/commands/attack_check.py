"""`python3 manage.py attack_check --json`: what somebody without a right, and somebody with little,
can do to a running system.

A run of its own. Exit 0: every check held; 1: one did not, or the server failed; 3: the check
itself could not judge one.
"""

from typing import Any

from django.core.management.base import CommandParser

from dashboard.evaluation.attack import run
from dashboard.evaluation.attack.target import Target
from dashboard.evaluation.beside import phases
from dashboard.evaluation.judge import FAILED, HELD
from dashboard.evaluation.runner import EvaluationCommand, Found, add_seed, add_steps
from dashboard.management.arguments import say, whole

REQUESTS = 300


class Command(EvaluationCommand):
    help = "Attacks a run of its own, and counts what got through, what broke and what changed."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_steps(parser, run.CHECKS)
        parser.add_argument(
            "--requests",
            type=whole(1, 100_000),
            default=REQUESTS,
            help=f"mutated ones that reach each route, default {REQUESTS}",
        )
        add_seed(parser, "of what is sent")
        parser.add_argument(
            "--hostile",
            action="store_true",
            help=f"instead: five hostile members of a group beside {phases.HONEST_GROUPS} honest"
            " groups, and how much longer these wait",
        )
        parser.add_argument(
            "--pairs",
            type=whole(1, 20),
            default=phases.PAIRS,
            help=f"of phases without and with them, default {phases.PAIRS}",
        )
        parser.add_argument(
            "--seconds",
            type=whole(5, 600),
            default=phases.SECONDS,
            help=f"of a phase, default {phases.SECONDS}",
        )

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        self.judged: list[run.Judged] = []
        self.target: Target | None = None
        if options["hostile"]:
            return phases.measured(options["seed"], options["pairs"], options["seconds"])
        with run.attacked(options["seed"], options["requests"]) as self.target:
            for name in options["steps"]:
                one = run.judge(name, run.CHECKS[name], self.target)
                self.judged.append(one)
                say(f"{name}: {'held' if one.held else 'did not hold'}: {one.detail}")
        return run.answer(self.judged, self.target)

    def ended_early(self, why: str) -> tuple[Found, int]:
        """What was judged until then counts."""
        found, code = run.answer(self.judged, self.target)
        return {**found, "ok": False}, FAILED if code == HELD else code
