"""`python3 manage.py rebalance_table`: what a rebalance costs, by coordination and strategy.

Exit 0: done; 3: bad input, or an error of the harness: what was measured before it is kept.
"""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from dashboard.evaluation import table, table_report
from dashboard.evaluation.judge import FAILED, HELD
from dashboard.evaluation.runner import EvaluationCommand, Found, bad_input, tell
from dashboard.evaluation.table import Wanted


class Command(EvaluationCommand):
    help = "The time of a group for its messages while it rebalances once or twice."
    kept: Found | None = None  # what the runs before an error have measured

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.error = bad_input  # type: ignore[method-assign]
        parser.add_argument("--messages", type=int, default=table.MESSAGES)
        parser.add_argument("--repeat", type=int, default=table.REPEAT, help="runs of each row")
        parser.add_argument("--consumer", default="light", help="light or spark")
        parser.add_argument(
            "--rows",
            default="",
            help="only these, as 1,3: 1 to 5 with one rebalance, then with two",
        )
        parser.add_argument("--out", type=Path, metavar="DIR", help="for the result and the chart")

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        wanted = Wanted(**{n: options[n] for n in ("messages", "repeat", "consumer")})

        def keep(found: Found) -> None:
            self.kept = found
            if options["out"] is not None:
                table_report.write(found, options["out"], wanted)

        found = table.made(wanted, table.chosen(options["rows"]), tell, keep)
        keep(found)
        return found, HELD

    def ended_early(self, why: str) -> tuple[Found | None, int]:
        return self.kept and {**self.kept, "error": why}, FAILED

    def as_text(self, found: Found) -> str:
        return "\n".join(table_report.lines(found))
