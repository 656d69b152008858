"""`python3 manage.py plan VIEW.json [--json]`: one round of the planner, `-` is standard input."""

import sys
from typing import Any

from django.core.management.base import CommandParser

from assignment import planner
from assignment.planner import form, values
from dashboard.management.answers import AnswerCommand, read_json

WORDS = {"assigned": "owns", "revoked": "gives up", "standby": "keeps", "learning": "learns"}


class Command(AnswerCommand):
    help = "Plans one round: who owns, gives up, keeps and learns which partition."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "view", help="a JSON file of what members report (form: planner/form.py)"
        )

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        said = read_json(options["view"])
        assignment = planner.plan(form.read_view(said))
        for place in form.unread(said):
            print(f"plan: {place} is not read", file=sys.stderr)
        return form.shown(assignment), as_text(assignment)


def as_text(assignment: values.Assignment[str]) -> str:
    lines = [f"{member_id}  {_part(part)}" for member_id, part in assignment.members.items()]
    even = "balanced" if assignment.balanced else "not balanced"
    lines.append(f"moves {assignment.moves}, {even}")
    if assignment.waiting:
        lines.append(f"held back by learners_max: {assignment.waiting}")
    if assignment.unowned:
        lines.append(f"without an owner: {' '.join(assignment.unowned)}")
    if assignment.missing_standbys:
        missing = " ".join(f"{p} ({n})" for p, n in assignment.missing_standbys.items())
        lines.append(f"standbys missing: {missing}")
    return "\n".join(lines)


def _part(part: values.MemberAssignment[str]) -> str:
    shown = form.part_shown(part).items()
    return "; ".join(f"{WORDS[kind]} {' '.join(names)}" for kind, names in shown if names) or "—"
