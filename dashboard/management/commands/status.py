"""`python3 manage.py status --data DIR --json`: who owns what, while `up` runs."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from dashboard.demo.options import GROUP
from dashboard.demo.status import group_status
from dashboard.management.answers import AnswerCommand, group_named


class Command(AnswerCommand):
    help = "Prints members, owned partitions and counts of a group."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--group", default=GROUP)
        parser.add_argument("--data", type=Path, help="data folder, default ./data")

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        status = group_status(group_named(options["group"]))
        return status, as_text(status)


def as_text(status: dict[str, Any]) -> str:
    lines = [
        f"{member_id}  {member['state']}  {len(member['owned'])} partitions"
        f"  {member['spark_application_id'] or '—'}"
        for member_id, member in status["members"].items()
    ]
    numbers = ("ready", "partitions", "processed", "rebalances", "conflicts")
    return "\n".join([*lines, "  ".join(f"{name} {status[name]}" for name in numbers)])
