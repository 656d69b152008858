"""create_group NAME --stream S --partitions N: a new group, and what to run next."""

from argparse import BooleanOptionalAction
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from assignment import strategies
from assignment.setting import Choice, Count, Flag, Names, Parameters, Setting, StrategyName
from assignment.settings import DEFAULTS, SETTINGS
from dashboard.actions import groups
from dashboard.management.answers import add_as, asking, by_command, how_to_run
from dashboard.pages import parameters


def add_flag(parser: CommandParser, name: str, setting: Setting) -> None:
    """Of a setting, as it is declared; what it may be is checked with all the others."""
    flag = f"--{name.replace('_', '-')}"
    said: dict[str, Any] = {"help": help_of(setting)}
    said |= {"required": True} if setting.once else {"default": DEFAULTS[name]}
    match setting:
        case Flag():
            parser.add_argument(flag, action=BooleanOptionalAction, **said)
        case Count():
            parser.add_argument(flag, type=int, **said)
        case _:
            parser.add_argument(flag, **said)


def help_of(setting: Setting) -> str:
    known: Sequence[str] = ()
    match setting:
        case StrategyName():
            known = strategies.NAMES
        case Choice():
            known = setting.options
    text = f"{setting.help} One of {', '.join(known)}." if known else setting.help
    return text.replace("%", "%%")


def value_of(name: str, given: Any) -> Any:
    """Of texts, what is meant. Raises InvalidInput."""
    match SETTINGS[name]:
        case Parameters() if isinstance(given, str):
            return parameters.parse(given)
        case Names() if isinstance(given, str):
            return [part for part in given.split(",") if part]
    return given


class Command(BaseCommand):
    help = "Makes a group over a stream (the stream too, when it is not there yet)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        add_as(parser)
        for name, setting in SETTINGS.items():
            if not setting.by_action:
                add_flag(parser, name, setting)

    def handle(self, *args: Any, **options: Any) -> None:
        with asking():
            by = by_command(as_user=options["as_user"])
            group = groups.create_group(
                options["name"],
                by,
                **{name: value_of(name, options[name]) for name in SETTINGS if name in options},
            )
            made = groups.create_token(group, by)
        self.stdout.write(
            f"Group {group.name} reads stream {group.stream} with {group.partitions} partitions by"
            f" {group.values.strategy}.\n{how_to_run(made)}"
        )
