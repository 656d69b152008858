"""`python3 manage.py scale_down GROUP --percent 80 | --members a,b`: drains members.

Exit code 2 and one sentence for what is refused, whatever the reason; 1 when Redis or the database
cannot be asked. As a user whose changes need approval it is proposed as a plan.
"""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from assignment.coordinator.scale_down import whole_number
from assignment.errors import InvalidInput
from dashboard.actions import at_once, scale_down
from dashboard.actions.preview import preview
from dashboard.management.answers import (
    AnswerCommand,
    add_as,
    by_command,
    group_named,
    proposed,
)
from dashboard.models import Group, Plan, ScaleDown

NO_LIMIT = "none"


class Command(AnswerCommand):
    help = "Drains members of a stateful group: they leave when others have learned their state."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("group")
        add_as(parser)
        parser.add_argument("--percent", help="how many of the live members remain, 1 to 100")
        parser.add_argument("--members", help="who is to leave: member ids by comma")
        parser.add_argument(
            "--timeout-ms",
            help="then the rest are forced out; 0: now, none: no limit; default: the group's",
        )
        parser.add_argument("--reason", default="", help="kept in history and audit")
        parser.add_argument(
            "--force", action="store_true", help="also when all members would leave"
        )
        parser.add_argument("--dry-run", action="store_true", help="tell who would leave, no more")
        parser.add_argument("--data", type=Path, help="data folder, default ./data")

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        group = group_named(options["group"])
        if options["dry_run"]:
            looked = _looked(group, options)
            return looked, _as_text(looked)
        row = _started(group, options)
        if isinstance(row, Plan):
            return proposed(row)
        found = _told(row)
        return found, _as_text(found)


def _who(options: dict[str, Any]) -> dict[str, Any]:
    """Raises InvalidInput unless one of the two was given."""
    percent, members = options["percent"], options["members"]
    if (percent is None) == (members is None):
        raise InvalidInput("give either --percent or --members")
    return {"percent": percent, "members": None if members is None else members.split(",")}


def _timeout(text: str | None) -> Any:
    if text is None:
        return scale_down.FROM_SETTINGS
    return None if text == NO_LIMIT else whole_number("timeout_ms", text)


def _looked(group: Group, options: dict[str, Any]) -> dict[str, Any]:
    scale_down.limit_of(group, _timeout(options["timeout_ms"]))
    found = preview(group, **_who(options), force_all=options["force"])
    if found.refused:
        raise InvalidInput(found.refused)
    return {
        "group": group.name,
        "members": found.members,
        "percent": found.percent,
        "stay": found.stay,
        "leave": sorted(leaver.member_id for leaver in found.leave),
        "state": "preview",
    }


def _started(group: Group, options: dict[str, Any]) -> ScaleDown | Plan:
    return at_once.drain(
        group,
        by_command(options["reason"], as_user=options["as_user"]),
        **_who(options),
        timeout_ms=_timeout(options["timeout_ms"]),
        force_all=options["force"],
    )


def _told(row: ScaleDown) -> dict[str, Any]:
    return {
        "group": row.group.name,
        "members": row.live,
        "percent": row.percent,
        "stay": row.stay,
        "leave": sorted(row.members),
        "state": row.state,
        "scale_down": row.pk,
        "timeout_ms": row.timeout_ms,
        "told_at_ms": row.told_at_ms,
        "plan": row.plan_id,
    }


def _as_text(found: dict[str, Any]) -> str:
    leave = ", ".join(found["leave"]) or "nobody"
    verb = "would leave" if found["state"] == "preview" else "told to leave"
    return f"{found['members']} members: {found['stay']} stay, {verb}: {leave}; {found['state']}"
