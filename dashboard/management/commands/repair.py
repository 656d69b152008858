"""`python3 manage.py repair GROUP [--apply]`: what is damaged of a group in Redis, and mending it.

Without --apply nothing is changed. `--incarnation N`: agents saw that one, but database and Redis
came back from a backup; what they say is set aside until a person confirms it.

Exit 0: nothing is damaged, or it was mended; 1: something is, or Redis or the database cannot be
asked; 3 and one sentence: refused, or bad input.
"""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from assignment.bounds import printable
from assignment.coordinator.repair import Finding, Mend
from dashboard.actions import repair
from dashboard.actions.groups import Refused
from dashboard.management.answers import AnswerCommand, add_as, by_command, group_named

FOUND = 1  # exit code
WORDS = {
    Mend.FORGET: "dropped: it is said anew",
    Mend.EVICT: "the member goes, and its agent joins anew",
    Mend.MIRROR: "as the database has it; without that, from the start of the partition",
    Mend.CORRECT: "in the database: as Redis has it, or the present time; who cannot be goes",
    Mend.REBUILD: "members, target and grants as after a wipe; offsets and snapshots stay",
    Mend.RENUMBER: "a lower number, in Redis and in the history; all agents must be stopped",
}


class Command(AnswerCommand):
    help = "Says what of a group cannot be read or counted on in Redis; --apply mends it."
    refused = 3

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("group")
        add_as(parser)
        parser.add_argument("--apply", action="store_true", help="mend what was found")
        parser.add_argument(
            "--incarnation",
            type=int,
            help="with --apply: the highest that agents say they saw, after a restored backup",
        )
        parser.add_argument("--reason", default="", help="kept in the audit")
        parser.add_argument("--data", type=Path, help="data folder, default ./data")

    def handle(self, *arguments: Any, **options: Any) -> None:
        self.is_left = False
        super().handle(*arguments, **options)
        if self.is_left:
            sys.exit(FOUND)

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        group, applies = group_named(options["group"]), options["apply"]
        by = by_command(options["reason"], as_user=options["as_user"])
        if options["incarnation"] is not None:
            if not applies:
                raise Refused("--incarnation changes the group: say --apply, too")
            repair.accept_incarnation(group, options["incarnation"], by)
        found = repair.mend(group, by) if applies else repair.look(group)
        self.is_left = bool(found) and not applies
        told = {
            "group": group.name,
            "applied": applies,
            "findings": [finding._asdict() for finding in found],
        }
        return told, _as_text(group.name, found, applies=applies)


def _as_text(name: str, found: tuple[Finding, ...], *, applies: bool) -> str:
    if not found:
        return f"{name}: nothing is damaged"
    lines = [f"{_where(one)}: {one.why}; {WORDS[one.mend]}" for one in found]
    end = "mended" if applies else "nothing was changed: --apply mends it"
    return "\n".join([*lines, f"{name}: {len(found)} damaged; {end}"])


def _where(finding: Finding) -> str:
    return printable(f"{finding.key} {finding.name}".rstrip())
