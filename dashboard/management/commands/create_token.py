"""create_token GROUP: a token for the group's agents, shown once, and what to run with it."""

import getpass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from assignment.errors import EvenkeelError
from dashboard.actions import groups
from dashboard.models import AuditSource, Group


class Command(BaseCommand):
    help = "Makes a token for a group's agents and prints the agent command to run with it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("group")
        parser.add_argument("--name", default=groups.TOKEN_NAME)
        parser.add_argument("--days", type=float, help="valid so long; without it until revoked")

    def handle(self, *args: Any, **options: Any) -> None:
        group = Group.objects.filter(name=options["group"]).first()
        if group is None:
            raise CommandError(f"there is no group {options['group']!r}")
        days = options["days"]
        try:
            made = groups.create_token(
                group,
                name=options["name"],
                actor=getpass.getuser(),
                source=AuditSource.COMMAND,
                expires_at=None if days is None else timezone.now() + timedelta(days=days),
            )
        except EvenkeelError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            "Run an agent beside each consumer (the token is shown only now):\n\n  "
            + groups.agent_command(group, made.text, settings.PUBLIC_URL, settings.REDIS_URL)
        )
