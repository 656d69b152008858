"""`python3 manage.py bench --json`: the figures of tests/bench, measured here and now.

Each module there has `rows()`: {"name", "value", "unit", "ratio", "yardstick"} per figure, and its
"aim" where there is one. What could not be measured has no value (None), and an "error" that says
why. They start what they need themselves; run it on a machine that does nothing else.
"""

import importlib
import json
import pkgutil
import sys
from contextlib import redirect_stdout
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

PACKAGE = "tests.bench"


class Command(BaseCommand):
    help = "Measures throughput, latency and cost; prints one row per figure."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("only", nargs="*", help=f"modules of {PACKAGE}; all by default")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        rows = []
        for name in chosen(options["only"]):
            print(f"measuring {name}", file=sys.stderr, flush=True)
            with redirect_stdout(sys.stderr):  # what is measured may log; the answer is alone
                rows += importlib.import_module(f"{PACKAGE}.{name}").rows()
        found = json.dumps({"rows": rows}) if options["json"] else "\n".join(map(as_text, rows))
        self.stdout.write(found)


def chosen(only: list[str]) -> list[str]:
    """Modules with `rows`, in the order of their names. CommandError names an unknown one."""
    folder = importlib.import_module(PACKAGE).__path__
    found = sorted(
        module.name
        for module in pkgutil.iter_modules(folder)
        if not module.ispkg and hasattr(importlib.import_module(f"{PACKAGE}.{module.name}"), "rows")
    )
    if unknown := sorted(set(only) - set(found)):
        raise CommandError(f"there is no figure {', '.join(unknown)}; there are {', '.join(found)}")
    return only or found


def as_text(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return f"{row['name']}: not measured: {row['error']}"
    ratio = "" if row["ratio"] is None else f"  ratio {row['ratio']:.2f}"
    aim = f"  aim {row['aim']}" if "aim" in row else ""
    return f"{row['name']}: {row['value']:.4g} {row['unit']}{ratio}{aim}  ({row['yardstick']})"
