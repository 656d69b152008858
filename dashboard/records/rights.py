"""What a person may, read from the database: grants as rows, decided by actions/roles.py."""

import logging
from collections.abc import Collection
from functools import lru_cache
from typing import TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db.models import Model, QuerySet

from assignment.errors import InvalidInput
from dashboard.actions.roles import EVERYTHING, Action, Effect, Grant, Rights, Role
from dashboard.models import Group
from dashboard.records.grants import RoleGrant

Row = TypeVar("Row", bound=Model)
DENY_ALL = Grant(role=Role.VIEWER, effect=Effect.DENY)
NOTHING = Rights((DENY_ALL,))

log = logging.getLogger(__name__)


def of_user(user: AbstractBaseUser | AnonymousUser) -> Rights:
    """One query; none for a superuser, who may everything, and for who is nobody or deactivated."""
    if not isinstance(user, User) or not user.is_active:
        return NOTHING
    if user.is_superuser:
        return EVERYTHING
    return Rights(tuple(_read(row) for row in RoleGrant.objects.filter(user_id=user.pk)))


def narrowed_to(rows: QuerySet[Row], rights: Rights, action: Action, name: str) -> QuerySet[Row]:
    """Those whose group's name, the field `name`, is one where `action` may at least be looked at.
    Rows without a group are let through by a right in all groups, without exception, alone.
    """
    scope = rights.scope(action)
    if scope.within == "":
        return rows.none()
    if not scope.in_none:
        rows = rows.exclude(**{name: ""})
    if scope.within is not None:
        rows = rows.filter(**{f"{name}__regex": scope.within})
    return rows.exclude(**{f"{name}__regex": scope.without}) if scope.without else rows


def visible(rights: Rights) -> QuerySet[Group]:
    """What may not be seen is not listed."""
    return narrowed_to(Group.objects.all(), rights, Action.SEE, "name")


def watched(asked: Collection[tuple[int, str]]) -> set[tuple[int, str]]:
    """Those pairs of a user's key and a name where the name is a group that this person may see;
    three queries, however many they are. Raises DatabaseError.
    """
    groups = Group.objects.filter(name__in={name for _, name in asked}).order_by()
    there = set(groups.values_list("name", flat=True))
    held = of_users({pk for pk, _ in asked})
    return {(pk, name) for pk, name in asked if name in there and held[pk].may(Action.SEE, name)}


def of_users(keys: Collection[int]) -> dict[int, Rights]:
    """By key, with two queries; whether they are active is not looked at."""
    granted: dict[int, list[Grant]] = {key: [] for key in keys}
    for row in RoleGrant.objects.filter(user_id__in=keys):
        granted[row.user_id].append(_read(row))
    held = {key: Rights(tuple(grants)) for key, grants in granted.items()}
    everything = User.objects.filter(pk__in=keys, is_superuser=True).values_list("pk", flat=True)
    return held | dict.fromkeys(everything, EVERYTHING)


def _read(row: RoleGrant) -> Grant:
    """One that cannot be read, as somebody wrote it into the database, denies its person all, and
    concerns nobody else.
    """
    try:
        return row.value
    except (InvalidInput, ValueError) as error:
        _say_unreadable(row.pk, str(error))
        return DENY_ALL


@lru_cache(maxsize=1_000)  # once: open sockets ask again and again
def _say_unreadable(key: int, why: str) -> None:
    log.error("grant %d cannot be read, its person may do nothing: %s", key, why)
