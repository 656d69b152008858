"""audit_verify: whether what the audit says was altered, and where first."""

import sys
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.db import connection
from django.utils import timezone

from assignment.errors import InvalidInput
from dashboard.management.answers import AnswerCommand
from dashboard.management.arguments import say, whole
from dashboard.records import audit, chain, guards

BROKEN = 1  # exit code


class Command(AnswerCommand):
    help = (
        "Follows the audit's chain and names its first broken link (exit 1). With --keep-days it"
        " then removes older entries, which a checkpoint in the chain vouches for."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--keep-days", type=whole(1, 36_500), help="remove what is older, once all holds"
        )

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        found = chain.verify(told=lambda seq: say(f"entry {seq} holds"))
        unguarded = guards.missing(connection)
        removed = 0
        if found.ok:
            if options["keep_days"] is not None:
                removed = audit.remove_before(timezone.now() - timedelta(days=options["keep_days"]))
            chain.anchor()
        elif options["keep_days"] is not None:
            raise InvalidInput(f"nothing is removed from a broken chain: {found.broken}")
        answer = {**asdict(found), "ok": found.ok, "removed": removed, "unguarded": unguarded}
        self._broken = not found.ok
        return answer, said(found, removed, unguarded)

    _broken = False

    def handle(self, *arguments: Any, **options: Any) -> None:
        super().handle(*arguments, **options)
        if self._broken:
            sys.exit(BROKEN)


def said(found: chain.Verified, removed: int, unguarded: list[str]) -> str:
    lines = [found.sentence]
    if removed:
        lines.append(f"{removed} older entries were removed; a checkpoint vouches for them.")
    if unguarded:
        lines.append(f"Not guarded: {', '.join(unguarded)}. Run manage.py migrate.")
    return "\n".join(lines)
