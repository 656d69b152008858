"""adopt_group NAME: a record of a group that its agents made, with Redis alone."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dashboard.actions import adoption
from dashboard.management.answers import add_as, asking, by_command


class Command(BaseCommand):
    help = "Takes a group that its agents made into this dashboard; nothing changes for them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        add_as(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        with asking():
            group = adoption.adopt(options["name"], by_command(as_user=options["as_user"]))
        self.stdout.write(
            f"Group {group.name} is on the dashboard: stream {group.stream},"
            f" {group.partitions} partitions, by {group.values.strategy}."
        )
