"""What the commands pause and resume have in common."""

from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandParser

from assignment.errors import InvalidInput
from dashboard.actions.pausing import Standing
from dashboard.management.answers import AnswerCommand, add_as, by_command, group_named
from dashboard.models import Group
from dashboard.pages import texts

NUMBERS_MAX = 1_000_000  # of a range that is typed; a group has fewer partitions


class PauseCommand(AnswerCommand):
    refused = 3
    action: Callable[..., Standing]

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("group")
        parser.add_argument(
            "--partition",
            action="append",
            metavar="N",
            help="only this one, or 0-15; may be given again; without it the whole group",
        )
        parser.add_argument("--reason", help="kept in the audit")
        add_as(parser)

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        if not (options["reason"] or "").strip():
            raise InvalidInput("give a --reason: it is kept in the audit")
        named = options["partition"]
        numbers = None if named is None else [n for text in named for n in numbers_in(text)]
        by = by_command(options["reason"], as_user=options["as_user"])
        group = group_named(options["group"])
        done = type(self).action(group, by, numbers)
        return as_json(group, done), as_text(group, done)


def numbers_in(text: str) -> range:
    """Of "7" or "0-15". Raises InvalidInput."""
    first, _, last = text.strip().partition("-")
    last = last or first
    if not (first.isdecimal() and last.isdecimal() and len(first + last) <= 12):
        raise InvalidInput(f"--partition {text!r} is neither a number nor a range like 0-15")
    found = range(int(first), int(last) + 1)
    if not 0 < len(found) <= NUMBERS_MAX:
        raise InvalidInput(f"--partition {text!r} is no range: it ends before it begins")
    return found


def as_json(group: Group, done: Standing) -> dict[str, Any]:
    pauses = done.pauses
    return {
        "group": group.name,
        "changed": done.changed,
        "progress": done.progress,
        "version": pauses.version,
        "whole_group": pauses.group is not None,
        "partitions": [p.number for p in sorted(pauses.partitions)],
        "states": {p.number: state for p, state in sorted(done.states.items())},
    }


def as_text(group: Group, done: Standing) -> str:
    pauses, again = done.pauses, "" if done.changed else "; it was so already"
    lines = [f"{group.name}: {done.progress}{again}"]
    if pauses.group:
        lines.append(f"the whole group {texts.paused_by(pauses.group)}")
    lines += [f"{p} {texts.paused_by(one)}" for p, one in sorted(pauses.partitions.items())]
    return "\n".join(lines)
