"""What `up` needs of the database before anything else runs: tables, an operator, the demo's group.

A process of its own (`python -m dashboard.demo.prepare [--group NAME --partitions N ...]`), so that
the supervisor needs no connection. May be run again: what stands is kept, but for what was asked
anew. The last line on standard error is the reason when it fails.
"""

import argparse
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

import django

from dashboard.demo.files import write_private
from dashboard.demo.options import AGENT_TOKEN, AGENTS_URL, PRODUCER_TOKEN

OPERATOR = "operator"
PASSWORD_BYTES = 12
WHY = "as `up` was asked for"
CHANGED = "-"  # in the place of a password that was changed since: only its owner knows it


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    from django.core.exceptions import ImproperlyConfigured

    try:
        django.setup()
    except ImproperlyConfigured as error:
        sys.exit(f"evenkeel: {error}")
    from django.db import DatabaseError

    from assignment.errors import EvenkeelError

    options = parse_options()
    try:
        prepare(options)
    except DatabaseError as error:
        sys.exit(f"evenkeel: the database cannot be used: {error}")
    except (EvenkeelError, OSError) as error:
        sys.exit(f"evenkeel: {error}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--group")
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--standbys", type=int, default=0)
    parser.add_argument("--stateless", action="store_true", help="no learners, no standbys")
    parser.add_argument("--settings", type=json.loads, default={}, help="more of them, as JSON")
    parser.add_argument("--check", action="store_true", help="nothing is trimmed, no batch waits")
    return parser.parse_args()


def prepare(options: argparse.Namespace) -> None:
    from django.conf import settings
    from django.core.management import call_command

    from dashboard.actions.groups import Refused

    if options.group and not settings.DEVELOPMENT:
        raise Refused(
            "the demo's agents come over plain HTTP, which is for one machine alone: leave"
            " EVENKEEL_HOSTS out, or give --no-demo"
        )
    call_command("migrate", interactive=False, verbosity=0)
    make_operator(settings.DATA / "login")
    make_users(settings.DATA / AGENTS_URL)
    if options.group:
        wanted = {
            "stateful": not options.stateless,
            "standby_replicas": options.standbys,
            "trimming": not options.check,
            **({"latency_goal_ms": 0} if options.check else {}),  # a check waits for commits
            **options.settings,
        }
        make_group(options.group, options.partitions, wanted, settings.DATA)


def make_users(address: Path) -> None:
    """Of tokens that are there already, and the scripts that they may run."""
    from dashboard.agents import rights

    rights.keep()
    write_private(address, f"{rights.agents_redis_url()}\n")


def make_operator(login: Path) -> None:
    """A password is made where nobody knows one: for a new user, and when its file was deleted. One
    that was changed since stays as it is, and its file says no longer that it knows it.
    """
    from django.contrib.auth.models import User

    is_known = login.exists()
    name, password = read_login(login) if is_known else (OPERATOR, CHANGED)
    user = User.objects.filter(username=name).first()
    if user is not None and is_known:
        if password != CHANGED and not user.check_password(password):
            write_private(login, f"{name} {CHANGED}\n")
        return
    if password == CHANGED:
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        write_private(login, f"{name} {password}\n")
    if user is None:
        User.objects.create_superuser(name, password=password)
    else:
        user.set_password(password)
        user.save()


def read_login(login: Path) -> tuple[str, str]:
    words = login.read_text().split()
    if len(words) != 2:
        raise OSError(f"{login} does not hold a name and a password: delete it to get a new one")
    return words[0], words[1]


def shown_login(login: Path) -> str:
    name, password = read_login(login)
    if password == CHANGED:
        password = f"as it was changed (for a new one delete {login} and start again)"
    return f"login: {name}  password: {password}"


def make_group(name: str, partitions: int, wanted: dict[str, Any], folder: Path) -> None:
    """Group and its tokens, each once. Refused when the group has another number of partitions."""
    from dashboard.actions import groups, producers
    from dashboard.models import AuditSource, Group
    from dashboard.records.audit import By

    by = By(OPERATOR, AuditSource.COMMAND)
    group = Group.objects.filter(name=name).first()
    if group is None:
        group = groups.create_group(name, by, stream=name, partitions=partitions, **wanted)
    if group.partitions != partitions:
        raise groups.Refused(
            f"group {name} has {group.partitions} partitions, not {partitions}: choose another"
            " folder with --data"
        )
    groups.change_settings(group, wanted, By(OPERATOR, AuditSource.COMMAND, WHY))
    if not (file := folder / AGENT_TOKEN).exists():
        write_private(file, f"{groups.create_token(group, by).text}\n")
    if not (file := folder / PRODUCER_TOKEN).exists():
        write_private(file, f"{producers.create_token(name, by).text}\n")


if __name__ == "__main__":
    main()
