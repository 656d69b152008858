"""create_producer_token STREAM: what a producer logs in to Redis with, shown once."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from dashboard.actions import producers
from dashboard.management.answers import add_as, asking, by_command


class Command(BaseCommand):
    help = "Makes a token that appends to one stream, or revokes those of a name."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("stream")
        add_as(parser)
        parser.add_argument("--name", default=producers.TOKEN_NAME)
        parser.add_argument("--days", type=float, help="valid so long; without it until revoked")
        parser.add_argument("--revoke", action="store_true", help="those of this name instead")
        parser.add_argument("--url", action="store_true", help="print the address and nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        stream, name, days = options["stream"], options["name"], options["days"]
        with asking():
            by = by_command(as_user=options["as_user"])
            if options["revoke"]:
                count = producers.revoke_tokens(stream, name, by)
                self.stdout.write(f"{count} revoked; their connections are ended.")
                return
            made = producers.create_token(
                stream,
                by,
                name=name,
                expires_at=None if days is None else timezone.now() + timedelta(days=days),
            )
        if options["url"]:
            self.stdout.write(made.redis_url)
            return
        self.stdout.write(
            "Run the producer with this address (its token is shown only now):\n\n"
            f"  {producers.command(made)}"
        )
