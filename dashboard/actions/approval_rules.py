"""Rules that approve plans without a person: made and removed by admins of all groups, asked when a
plan is proposed.

A rule approves in its author's name: only what its author may approve at that moment, and never
what its author proposed. The database keeps the latter as it does for people.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError
from django.utils import timezone

from assignment.errors import InvalidInput
from assignment.types import valid_name
from dashboard.actions.access import require
from dashboard.actions.conditions import Conditions
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.models import ApprovalRule, Plan
from dashboard.records import audit, rights
from dashboard.records.audit import By

RULES_MAX = 100  # each of them is asked of each plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """The rule that approves a plan. `values`: what met it, each beside its condition."""

    rule: str
    author: str
    values: dict[str, Any]

    @property
    def why(self) -> str:
        found = self.values
        return (
            f"rule “{self.rule}” of {self.author}: {found['moves']} of at most"
            f" {found['moves_max']} moves, at {found['at']} ({found['hours']}), groups"
            f" {found['groups']}"
        )


@audit.attempted("create approval rule", in_group=False)
def create(name: str, conditions: Conditions, by: By) -> ApprovalRule:
    """Raises InvalidInput, Denied, Refused (the name is taken, there are too many)."""
    require(by, Action.MANAGE_APPROVALS, None)
    valid_name("rule", name)
    author = User.objects.filter(username=by.actor, is_active=True).first()
    if author is None:
        raise Refused(f"a rule approves in the name of its author, and {by.actor!r} is no user")
    if ApprovalRule.objects.count() >= RULES_MAX:
        raise Refused(f"there are {RULES_MAX} rules already: remove one first")
    try:
        with audit.atomic():
            rule = ApprovalRule.objects.create(
                name=name,
                author=author,
                pattern=conditions.pattern,
                kinds=list(conditions.kinds),
                moves_max=conditions.moves_max,
                begins=conditions.begins,
                ends=conditions.ends,
            )
            audit.record(by, "create approval rule", object=name, after=told(conditions))
    except IntegrityError as error:
        raise Refused(f"rule {name!r} exists already") from error
    return rule


@audit.attempted("remove approval rule", in_group=False)
def remove(rule: ApprovalRule, by: By) -> None:
    """What it approved stays approved. Raises Denied."""
    require(by, Action.MANAGE_APPROVALS, None)
    with audit.atomic():
        before = told(conditions_of(rule)) | {"author": rule.author.username}
        audit.record(by, "remove approval rule", object=rule.name, before=before)
        rule.delete()


def conditions_of(rule: ApprovalRule) -> Conditions:
    """Raises InvalidInput: somebody wrote it into the database."""
    return Conditions(
        kinds=tuple(rule.kinds),
        moves_max=rule.moves_max,
        pattern=rule.pattern,
        begins=rule.begins,
        ends=rule.ends,
    )


def told(conditions: Conditions) -> dict[str, Any]:
    return {
        "groups": conditions.pattern,
        "kinds": list(conditions.kinds),
        "moves_max": conditions.moves_max,
        "hours": conditions.hours,
    }


def why_idle(rule: ApprovalRule) -> str:
    """Why it approves nothing anywhere; "" when it may."""
    return rights.of_user(rule.author).why_not(Action.MANAGE_APPROVALS, None)


def utc_now() -> datetime:
    return timezone.now().astimezone(UTC)


def first_met(plan: Plan) -> Met | None:
    """Of those by others than who proposed it, in the order of their names."""
    now = utc_now()
    values = {"moves": plan.content.moves_in_all, "minute": 60 * now.hour + now.minute}
    rules = ApprovalRule.objects.select_related("author")
    for rule in rules.exclude(author__username=plan.proposed_by):
        if _approves(rule, plan, **values):
            shown = conditions_of(rule).shown(**values)
            return Met(rule=rule.name, author=rule.author.username, values=shown)
    return None


def _approves(rule: ApprovalRule, plan: Plan, *, moves: int, minute: int) -> bool:
    group, held = plan.group.name, rights.of_user(rule.author)
    if why_idle(rule) or not held.may(Action.APPROVE, group):
        return False
    try:
        conditions = conditions_of(rule)
    except InvalidInput:
        return False
    return conditions.are_met(group=group, kind=plan.kind, moves=moves, minute=minute)
