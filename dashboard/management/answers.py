"""What commands have in common: how they fail, which group is meant, who asks."""

import getpass
import json
import sys
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from assignment.errors import EvenkeelError, InvalidInput
from dashboard import strict_json
from dashboard.actions import groups
from dashboard.actions.roles import Denied
from dashboard.live.connection import StoreUnavailable
from dashboard.models import AuditSource, Group, Plan
from dashboard.records import rights
from dashboard.records.audit import By

REFUSED = 2  # exit code


@contextmanager
def asking(refused: int = 1) -> Iterator[None]:
    """One sentence: exit code 1 when database or Redis cannot be asked, `refused` for refusals."""
    try:
        yield
    except DatabaseError as error:
        raise CommandError(f"nothing has run over {settings.DATA} yet: {error}") from error
    except StoreUnavailable as error:
        raise CommandError(f"nothing runs here: {error}") from error
    except (EvenkeelError, Denied) as error:
        raise CommandError(str(error), returncode=refused) from error


def group_named(name: str) -> Group:
    """Raises InvalidInput."""
    group = Group.objects.filter(name=name).first()
    if group is None:
        raise InvalidInput(f"there is no group {name!r}")
    return group


def add_as(parser: CommandParser) -> None:
    """For commands that change a group."""
    text = (
        "do it as this user of the dashboard, with that user's rights; else everything is allowed"
    )
    parser.add_argument("--as", dest="as_user", metavar="USER", help=text)


def by_command(reason: str = "", *, as_user: str | None = None) -> By:
    """As a user of the dashboard, or as who runs the command: that one may do everything, having
    the files and keys anyway. Raises InvalidInput: there is no such user.
    """
    if as_user is None:
        return By(getpass.getuser(), AuditSource.COMMAND, reason)
    user = User.objects.filter(username=as_user, is_active=True).first()
    if user is None:
        raise InvalidInput(f"--as {as_user!r}: there is no such user who may log in")
    return By(user.username, AuditSource.COMMAND, reason, rights=rights.of_user(user))


def proposed(plan: Plan) -> tuple[dict[str, Any], str]:
    """As JSON and as text: it waits for somebody's approval."""
    found = {"group": plan.group.name, "plan": plan.pk, "kind": plan.kind, "state": plan.state}
    return found, f"{plan}, a {plan.kind}, is proposed: somebody else may approve it"


def how_to_run(made: groups.MadeToken) -> str:
    command = groups.agent_command(made, settings.PUBLIC_URL)
    return f"Run an agent beside each consumer (the token is shown only now):\n\n  {command}"


class AnswerCommand(BaseCommand):
    """Text, or with --json one object. Refused: one sentence, or {"error"}, and `refused` as the
    exit code, also for arguments that cannot be read.
    """

    requires_system_checks: list[str] = []
    refused = REFUSED

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object")
        parser.error = partial(_bad_arguments, self)  # type: ignore[method-assign]

    @abstractmethod
    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """As JSON, and as text. Raises EvenkeelError for what is refused."""

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            with asking(self.refused):
                found, text = self.answer(options)
        except CommandError as error:
            if error.returncode != self.refused or not options["json"]:
                raise
            self.stdout.write(json.dumps({"error": str(error)}))
            sys.exit(self.refused)
        self.stdout.write(json.dumps(found) if options["json"] else text)


def _bad_arguments(command: AnswerCommand, message: str) -> NoReturn:
    raise CommandError(message, returncode=command.refused)


def read_json(path: str) -> Any:
    """The document in a file, `-` is standard input. InvalidInput says what is wrong with it."""
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path!r} cannot be read: {error.strerror}") from error
    return strict_json.read(repr(path), content)
