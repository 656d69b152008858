"""`python3 manage.py rebalance_table`: what a rebalance costs, by coordination and strategy.

Exit 0: done; 3: bad input, or an error of the harness.
"""

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from assignment.errors import EvenkeelError
from dashboard.demo.options import Refused
from dashboard.demo.tree import Stopped, TreeFailed
from dashboard.evaluation import table
from dashboard.evaluation.table import Wanted
from dashboard.management.commands.chaos import bad_input, tell


class Command(BaseCommand):
    help = "The time of a group for its messages while it rebalances once or twice."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.error = bad_input  # type: ignore[method-assign]
        parser.add_argument("--messages", type=int, default=table.MESSAGES)
        parser.add_argument("--repeat", type=int, default=table.REPEAT, help="runs of each row")
        parser.add_argument("--consumer", default="light", help="light or spark")
        parser.add_argument(
            "--rows",
            default="",
            help="only these, as 1,3: 1 to 5 with one rebalance, then with two",
        )
        parser.add_argument("--json", action="store_true", help="one JSON object")
        parser.add_argument("--out", type=Path, metavar="DIR", help="for the result and the chart")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            wanted = Wanted(**{n: options[n] for n in ("messages", "repeat", "consumer")})
            found = table.made(wanted, table.chosen(options["rows"]), tell)
            if options["out"] is not None:
                table.write(found, options["out"], wanted)
        except Stopped:
            bad_input("asked to end")
        except (EvenkeelError, Refused, TreeFailed, OSError) as error:
            bad_input(str(error))
        text = json.dumps(found) if options["json"] else "\n".join(table.lines(found))
        self.stdout.write(text)
        sys.exit(0)
