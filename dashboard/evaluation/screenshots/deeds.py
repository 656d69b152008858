"""What people do in the system that is photographed, in a process that reaches its database.

    python -m dashboard.evaluation.screenshots.deeds DEED GROUP

The last line is the answer in JSON. Each deed is the one that pages do, by users of its own.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import django

USERS = {"planner": ("operator", "auditor"), "approver": ("approver",)}  # name -> roles
TIMEOUT_MS = 600_000
TOKEN_DAYS = 30


def by(name: str, reason: str = "") -> Any:
    from django.contrib.auth.models import User

    from dashboard.models import AuditSource
    from dashboard.records import rights
    from dashboard.records.audit import By

    user = User.objects.get(username=name)
    return By(name, AuditSource.PAGE, reason, rights=rights.of_user(user))


def named(group: str) -> Any:
    from dashboard.management.answers import group_named

    return group_named(group)


def people(group: str) -> None:
    """Who plans and who approves, with a token of the API."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from dashboard.actions import api_tokens, users
    from dashboard.actions.roles import Action, Grant, Role
    from dashboard.demo.prepare import OPERATOR

    for name, roles in USERS.items():
        made = users.make_user(name, f"of-nobody-{os.urandom(12).hex()}", by(OPERATOR))
        for role in roles:
            users.grant(made, Grant(role=Role(role)), by(OPERATOR))
    operator, ends = User.objects.get(username=OPERATOR), timezone.now() + timedelta(TOKEN_DAYS)
    scopes = {Action.REBALANCE, Action.SCALE_DOWN}
    api_tokens.create(operator, by(OPERATOR), name="nightly job", scopes=scopes, expires_at=ends)


def propose(group: str) -> int:
    """That the member leaves whose name is the last one."""
    from dashboard.actions import drafting, plans, preview, scale_down

    found = named(group)
    draft = drafting.drain(
        found,
        preview.asked_of(None, [max(preview.read(found).members)]),
        scale_down.how_of(found, TIMEOUT_MS, "force", None),
        force_all=False,
    )
    return int(plans.propose(found, draft, by("planner", "fewer at night")).pk)


def approve(group: str) -> None:
    """What was proposed last, and runs it."""
    from dashboard.actions import plans

    plan = named(group).plans.first()
    plans.approve(plan, by("approver", "quiet hours"), digest=plan.digest)
    plans.run(named(group).plans.first(), by("planner"))


def limits(group: str) -> None:
    """So that something of a small group needs attention."""
    from dashboard.actions import attention
    from dashboard.demo.prepare import OPERATOR

    wanted = {"lagging_records": 1, "lagging_behind_ms": 1_000, "lagging_for_ms": 1_000}
    attention.change_limits(named(group), wanted, by(OPERATOR, "a small group"))


def addresses(group: str) -> list[dict[str, str]]:
    """Of every page; of each row the last one. Raises UnknownPage."""
    from django.contrib.auth.models import User

    from dashboard.actions import preview
    from dashboard.demo.prepare import OPERATOR
    from dashboard.evaluation.screenshots.addresses import Known
    from dashboard.evaluation.screenshots.addresses import addresses as of_routes
    from dashboard.evaluation.stored import Evaluation
    from dashboard.pages.help.documents import BY_SLUG

    found, done = named(group), named(group).plans.filter(state="done").first()
    last, before = found.rebalances.all()[:2]
    rows = {
        "user": User.objects.get(username=OPERATOR),
        "scale_down": found.scale_downs.first(),
        "evaluation_report": Evaluation.objects.first(),
        "plan": done or found.plans.first(),
    }
    known = Known(
        values={
            "name": [group],
            "number": [0],
            "member_id": [min(preview.read(found).members)],
            "incarnation": [last.incarnation],
            "target_epoch": [last.target_epoch],
            "page": list(BY_SLUG),
        },
        rows={name: row.pk for name, row in rows.items() if row is not None},
        moments={"epoch": last.target_epoch, "before": before.target_epoch},
    )
    return [asdict(one) for one in of_routes(known)]


DEEDS: dict[str, Callable[[str], Any]] = {
    deed.__name__: deed for deed in (people, propose, approve, limits, addresses)
}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    from assignment.errors import EvenkeelError

    try:
        print(json.dumps(DEEDS[sys.argv[1]](sys.argv[2])))
    except EvenkeelError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
