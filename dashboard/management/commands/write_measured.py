"""`python3 manage.py write_measured`: the tables of docs/measured.md, from what runs have left.

Beside the page a file of the same name keeps the figures of every run that its tables are made of,
a line each: what is added later replaces its own lines alone.

Exit 0: written; 3: bad input.
"""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from assignment.errors import InvalidInput
from dashboard.demo.parts import ROOT
from dashboard.evaluation import measured
from dashboard.evaluation.chaos import matrix
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.measured import Found
from dashboard.evaluation.table_report import RESULT
from dashboard.management.answers import AnswerCommand

PAGE, MATRIX = ROOT / "docs/measured.md", ROOT / "docs/matrix.txt"
KEPT = ".jsonl"


class Command(AnswerCommand):
    help = "Writes the tables of docs/measured.md. A table whose folder is not named stays."
    refused = 3

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--runs", type=Path, help="DIR of chaos matrix --out")
        parser.add_argument("--table", type=Path, help="DIR of rebalance_table --out")
        parser.add_argument("--page", type=Path, default=PAGE, help="docs/measured.md")

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        runs, table, page = options["runs"], options["table"], options["page"]
        if runs is None and table is None:
            raise InvalidInput("name what was measured: --runs DIR, --table DIR or both")
        try:
            tables = table_in(table) if table else {}
            texts: dict[Path, str] = {}
            if runs:
                kept = page.with_suffix(KEPT)
                wanted, stored = found_in(runs, kept)
                tables |= measured.fault_tables(wanted, stored)
                texts[kept] = "".join(f"{line}\n" for line in measured.to_keep(wanted, stored))
            texts[page] = measured.put(page.read_text(), tables)
            for path, text in texts.items():
                path.write_text(text)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"the tables cannot be made: {error}") from error
        missing = {n: sum(measured.NOT_RUN in line for line in tables[n]) for n in tables}
        told = "\n".join(f"{name}: {n} rows {measured.NOT_RUN}" for name, n in missing.items())
        return {"page": str(page), "not_run_yet": missing}, told


def found_in(folder: Path, before: Path) -> tuple[list[Asked], dict[Asked, Found]]:
    """What the tables have rows of, and the runs: of that folder, and those that were kept."""
    wanted, stored = matrix.runs_of(MATRIX, seeds=1), matrix.stored_rows(folder)
    if not {a.any_seed for a in wanted} & {a.any_seed for a in stored}:
        raise InvalidInput(f"{folder} holds no run of docs/matrix.txt")
    old = before.read_text().splitlines() if before.exists() else []
    return wanted, {**measured.kept(old), **stored}


def table_in(folder: Path) -> dict[str, list[str]]:
    path = folder / RESULT
    return {"rebalances": measured.rebalance_table(json.loads(path.read_text()))}
