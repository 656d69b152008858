"""`python3 manage.py assign CASE.json [--strategy NAME] [--json]`: what a strategy makes of a case,
`-` is standard input.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from django.core.management.base import CommandParser

from assignment import strategies
from assignment.strategies import figures
from assignment.strategies.cases import Case, read_case
from assignment.strategies.figures import Figures
from assignment.strategies.given import Assigned
from assignment.strategies.parameters import Span
from assignment.types import Partition
from dashboard.management.answers import AnswerCommand, read_json
from dashboard.pages.texts import runs

OWNS_WIDTH = 70  # of the column that lists partitions; the number beside it is whole


class Command(AnswerCommand):
    help = "Assigns the partitions of a case and shows sizes, moves, balance and stickiness."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("case", help="a JSON file (form: assignment/cases.py)")
        names = ", ".join(strategies.NAMES)
        parser.add_argument("--strategy", help=f"{names}; else the case's own, or sticky")

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        case = read_case(read_json(options["case"]), options["strategy"])
        assigned = strategies.get(case.strategy, case.parameters)(case.given)
        even = strategies.even_is_best(case.strategy, case.parameters, case.given.members)
        found = figures.of_assignment(case.given, assigned, case.before, even_is_best=even)
        pairs = {member: [list(p) for p in own] for member, own in assigned.items()}
        shown = {"assignment": pairs, "metrics": asdict(found)}
        return shown, as_text(case, assigned, found) if not options["json"] else ""


def as_text(case: Case, assigned: Assigned, found: Figures) -> str:
    rows = [("member", "partitions", "moved here", "owns")]
    for member, own in assigned.items():
        come = sum(case.before.get(p, member) != member for p in own)
        rows.append((member, str(len(own)), str(come), _ranges(own)))
    lines = [case.strategy, "", *_table(rows), ""]
    return "\n".join(lines + [f"{name}: {value}" for name, value in _named(found)])


def _named(found: Figures) -> Iterator[tuple[str, str]]:
    for name, value in asdict(found).items():
        if name != "sizes":
            yield name.replace("_", " "), "unknown" if value is None else f"{value:.6g}"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Numbers to the right."""
    wide = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for name, size, come, owns in rows:
        line = f"{name:<{wide[0]}}  {size:>{wide[1]}}  {come:>{wide[2]}}  {owns}"
        yield line.rstrip()


def _ranges(own: Sequence[Partition]) -> str:
    """`flights:0-3 flights:7`, cut where it gets long."""
    words, width = [], 0
    for run in _runs(own):
        words.append(run)
        width += len(run) + 1
        if width > OWNS_WIDTH:
            return f"{' '.join(words)} ..."
    return " ".join(words)


def _runs(own: Sequence[Partition]) -> Iterator[str]:
    for stream, found in groupby(own, key=lambda partition: partition.stream):
        yield from (str(Span(stream, *run)) for run in runs(p.number for p in found))
