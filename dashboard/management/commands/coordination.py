"""`python3 manage.py coordination GROUP server|client --reason TEXT`: who computes its targets.

Exit 0: done, also when it was so already, or proposed where it takes another's approval; 3 and one
sentence: refused, or bad input; 1: Redis or the database cannot be asked. With --redis-url neither
the database nor the group's row is needed: a dashboard that has the group and the same SECRET_KEY
takes the switch into its audit with the next tick, without a name; one with another key puts it
back.
"""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from assignment.coordinator.scale_down import whole_number
from assignment.errors import InvalidInput
from assignment.types import valid_name
from dashboard.actions import at_once, coordination
from dashboard.actions.coordination import Switched
from dashboard.management.answers import (
    AnswerCommand,
    add_as,
    by_command,
    group_named,
    proposed,
)
from dashboard.models import Plan
from dashboard.settings import is_redis_address


class Command(AnswerCommand):
    help = "Switches who computes a group's targets: the dashboard (server) or its agents (client)."
    refused = 3

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("group")
        add_as(parser)
        parser.add_argument("mode", help="server or client")
        parser.add_argument("--reason", help="kept in the audit")
        parser.add_argument("--expect-mode-epoch", help="refused when another is current")
        parser.add_argument("--redis-url", help="straight in that Redis, without the database")
        parser.add_argument("--data", type=Path, help="data folder, default ./data")

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        name, mode = options["group"], coordination.mode_named(options["mode"])
        if not (options["reason"] or "").strip():
            raise InvalidInput("give a --reason: it is kept in the audit")
        epoch, url = options["expect_mode_epoch"], options["redis_url"]
        if url is not None and options["as_user"] is not None:
            raise InvalidInput("--as needs the database: leave out --redis-url")
        by = by_command(options["reason"], as_user=options["as_user"])
        expected = None if epoch is None else whole_number("mode epoch", epoch)
        if url is None:
            switched = at_once.switch(group_named(name), mode, by, expected=expected)
            if isinstance(switched, Plan):
                return proposed(switched)
        else:
            if not is_redis_address(url):
                raise InvalidInput(f"--redis-url {url!r} is no address of a Redis")
            settings.REDIS_URL = url
            valid_name("group", name)
            switched = coordination.switch_in_redis(name, mode, by, expected=expected)
        return _as_json(name, switched), _as_text(name, switched)


def _as_json(name: str, switched: Switched) -> dict[str, Any]:
    before, after = switched
    return {
        "group": name,
        "coordination": after.coordination,
        "mode_epoch": after.mode_epoch,
        "incarnation": after.incarnation,
        "changed": before.mode != after.mode,
        "before": {"coordination": before.coordination, "mode_epoch": before.mode_epoch},
    }


def _as_text(name: str, switched: Switched) -> str:
    before, after = switched
    now = f"coordination of {name} is {after.coordination}, mode epoch {after.mode_epoch}"
    return f"{now}; it was so already" if before.mode == after.mode else f"{now}; nothing moved"
