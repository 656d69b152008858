"""Commands that answer from a file or from arguments alone: no group, no Redis, no database.

Text for people, or with --json one object; what is refused is one sentence, or {"error"}, exit 2.
"""

import json
import sys
from abc import abstractmethod
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from assignment.errors import InvalidInput
from dashboard import strict_json

REFUSED = 2  # exit code


class AnswerCommand(BaseCommand):
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object")

    @abstractmethod
    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """As JSON, and as text. InvalidInput when what was given cannot be right."""

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            found, text = self.answer(options)
        except InvalidInput as error:
            if not options["json"]:
                raise CommandError(str(error), returncode=REFUSED) from error
            self.stdout.write(json.dumps({"error": str(error)}))
            sys.exit(REFUSED)
        self.stdout.write(json.dumps(found) if options["json"] else text)


def read_json(path: str) -> Any:
    """The document in a file, `-` is standard input. InvalidInput says what is wrong with it."""
    try:
        if path == "-":
            content = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                content = file.read()
    except OSError as error:
        raise InvalidInput(f"{path!r} cannot be read: {error.strerror}") from error
    return strict_json.read(repr(path), content)
