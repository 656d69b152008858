"""create_token GROUP: a token for the group's agents, shown once, and what to run with it."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from dashboard.actions import groups
from dashboard.management.answers import add_as, asking, by_command, group_named, how_to_run


class Command(BaseCommand):
    help = "Makes a token for a group's agents and prints the agent command to run with it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("group")
        add_as(parser)
        parser.add_argument("--name", default=groups.TOKEN_NAME)
        parser.add_argument("--days", type=float, help="valid so long; without it until revoked")

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["days"]
        with asking():
            made = groups.create_token(
                group_named(options["group"]),
                by_command(as_user=options["as_user"]),
                name=options["name"],
                expires_at=None if days is None else timezone.now() + timedelta(days=days),
            )
        self.stdout.write(how_to_run(made))
