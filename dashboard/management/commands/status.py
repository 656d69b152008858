"""`python3 manage.py status --data DIR --json`: who owns what, while `up` runs."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dashboard.demo.options import GROUP
from dashboard.demo.status import group_status
from dashboard.management.answers import asking_or_refused, group_named


class Command(BaseCommand):
    help = "Prints members, owned partitions and counts of a group."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--group", default=GROUP)
        parser.add_argument("--data", type=Path, help="data folder, default ./data")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        with asking_or_refused():
            status = group_status(group_named(options["group"]))
        self.stdout.write(json.dumps(status) if options["json"] else as_text(status))


def as_text(status: dict[str, Any]) -> str:
    lines = [
        f"{member_id}  {member['state']}  {len(member['owned'])} partitions"
        f"  {member['spark_application_id'] or '—'}"
        for member_id, member in status["members"].items()
    ]
    numbers = ("ready", "partitions", "processed", "rebalances", "conflicts")
    return "\n".join([*lines, "  ".join(f"{name} {status[name]}" for name in numbers)])
