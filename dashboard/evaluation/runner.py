"""How every command of the evaluation runs its body: progress goes to standard error, the answer to
standard output, and the exit code tells what is wrong.
"""

import argparse
import json
import secrets
import sys
import time
import traceback
from abc import abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandParser

from assignment.errors import EvenkeelError
from dashboard.demo.options import Refused
from dashboard.demo.tree import Stopped, TreeFailed
from dashboard.evaluation.judge import FAILED
from dashboard.management.arguments import say, whole

BEGAN_S = time.monotonic()
EXPECTED = (Stopped, EvenkeelError, Refused, TreeFailed, OSError)
Found = dict[str, Any]


class EvaluationCommand(BaseCommand):
    """`failed`: the exit code of a run that ended before its verdict, a bug of the harness too."""

    requires_system_checks: list[str] = []
    failed = FAILED

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object")

    @abstractmethod
    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        """The answer, and the exit code. Raises EvenkeelError, Refused, TreeFailed, Stopped."""

    def ended_early(self, why: str) -> tuple[Found | None, int]:
        """What is answered all the same; None: nothing."""
        return None, self.failed

    def as_text(self, found: Found) -> str:
        return "\n".join(line for name, value in found.items() for line in lines_of(name, value))

    def handle(self, *_: Any, **options: Any) -> None:
        found, code = self._found(options)
        if found is not None:
            self.stdout.write(json.dumps(found) if options["json"] else self.as_text(found))
        sys.exit(code)

    def _found(self, options: dict[str, Any]) -> tuple[Found | None, int]:
        try:
            return self.body(options)
        except Exception as error:
            if not isinstance(error, EXPECTED):  # a bug of the harness is no verdict
                traceback.print_exc()
            why = why_ended(error)
        say(f"evenkeel: {why}")
        return self.ended_early(why)


def why_ended(error: Exception) -> str:
    if isinstance(error, Stopped):
        return "asked to end"
    return str(error) if isinstance(error, EXPECTED) else repr(error)


def lines_of(name: str, value: Any) -> list[str]:
    """A row is a line."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return [f"{name}: {value}"]
    return ["  ".join([name, *(f"{key} {one}" for key, one in row.items())]) for row in value]


def told(found: Found, problems: Collection[str]) -> tuple[Found, int]:
    """The answer of a check that is right without problems, which are told."""
    for text in problems:
        say(f"wrong: {text}")
    return {**found, "ok": not problems}, int(bool(problems))


def tell(line: str) -> None:
    """Progress with its time since the start."""
    say(f"{time.monotonic() - BEGAN_S:6.1f} s  {line}")


# --- options


def bad_input(message: str) -> NoReturn:
    """In the place of a parser's error."""
    say(f"evenkeel: {message}")
    sys.exit(FAILED)


def folder(text: str) -> Path:
    """Processes are started in other folders."""
    return Path(text).resolve()


def add_seed(parser: argparse.ArgumentParser, of: str) -> None:
    parser.add_argument("--seed", type=whole(0, 2**31), default=secrets.randbelow(2**31), help=of)


def add_steps(parser: argparse.ArgumentParser, known: Collection[str]) -> None:
    """`--steps a,b`: some of a check's steps, in the order in which it runs them; never none."""

    def names(text: str) -> list[str]:
        asked = [name.strip() for name in text.split(",") if name.strip()]
        if unknown := [name for name in asked if name not in known]:
            raise argparse.ArgumentTypeError(
                f"there is no step {', '.join(unknown)}: choose from {', '.join(known)}"
            )
        if not asked:
            raise argparse.ArgumentTypeError(f"choose from {', '.join(known)}")
        return [name for name in known if name in asked]

    parser.add_argument("--steps", type=names, default=list(known), help=f"of {', '.join(known)}")
