"""`python3 manage.py bench_assign [--json]`: what assigning costs, and how good the result is.

What is measured and how: tests/bench/assign/README.md.
"""

import importlib
from typing import Any

from django.core.management.base import CommandParser

from assignment.errors import InvalidInput
from dashboard.management.answers import AnswerCommand

REPORT = "tests.bench.assign.report"


class Command(AnswerCommand):
    help = "Measures the core of `sticky`: CPU, memory, moves and evenness, beside its peers."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--quick", action="store_true", help="neither names nor peers")
        parser.add_argument(
            "--case",
            nargs="+",
            metavar="WORD",
            help="PARTITIONS MEMBERS and one of fresh, leave, join, leave10: this alone",
        )
        parser.add_argument(
            "--dump", metavar="FILE", help="an .npz file for the case's owners before and after"
        )

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        report = importlib.import_module(REPORT)
        if options["case"]:
            found = report.case(options["case"], options["dump"])
        elif options["dump"] is not None:
            raise InvalidInput(f"--dump {options['dump']} needs a --case")
        else:
            found = report.table(quick=options["quick"])
        return found, report.as_text(found)
