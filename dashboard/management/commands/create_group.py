"""create_group NAME --stream S --partitions N: a new group, and what to run next."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from assignment import strategies
from dashboard.actions import groups
from dashboard.management.answers import add_as, asking, by_command, how_to_run
from dashboard.pages import parameters

AS_TYPED = ("stream", "partitions", "strategy", "stateful", "standby_replicas")


class Command(BaseCommand):
    help = "Makes a group over a stream (the stream too, when it is not there yet)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        add_as(parser)
        parser.add_argument("--stream", required=True)
        parser.add_argument("--partitions", required=True, type=int)
        parser.add_argument("--strategy", default="sticky", help=", ".join(strategies.NAMES))
        parser.add_argument("--strategy-parameters", default="", help="a JSON object")
        parser.add_argument(
            "--stateful", action="store_true", help="state is learned before a partition moves"
        )
        text = "kept replicas of each partition's state"
        parser.add_argument("--standby-replicas", type=int, default=0, help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        with asking():
            by = by_command(as_user=options["as_user"])
            group = groups.create_group(
                options["name"],
                by,
                strategy_parameters=parameters.parse(options["strategy_parameters"]),
                **{name: options[name] for name in AS_TYPED},
            )
            made = groups.create_token(group, by)
        self.stdout.write(
            f"Group {group.name} reads stream {group.stream} with {group.partitions} partitions by"
            f" {group.values.strategy}.\n{how_to_run(made)}"
        )
