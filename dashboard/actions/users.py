"""What admins do to users and their grants, each audited in the transaction that does it: of users
whoever changes them, by records/logins.py.

Users are deactivated, not deleted: what they did stays theirs.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q

from assignment.errors import InvalidInput
from dashboard.actions import api_tokens
from dashboard.actions.access import require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action, Grant, Role
from dashboard.live import push
from dashboard.records import audit, rights
from dashboard.records.audit import By
from dashboard.records.grants import RoleGrant

GRANTS_MAX = 200  # of one person; each is tried for each decision


def named(target: User | RoleGrant | str) -> str:
    """As entries of the audit name who something was done to."""
    match target:
        case RoleGrant():
            return named(target.user)
        case User():
            return f"user {target.username}"
    return f"user {target}"


@audit.attempted("create user", in_group=False, named=named)
def make_user(name: str, password: str, by: By) -> User:
    """A viewer of every group until something is granted. Raises InvalidInput, Refused (taken)."""
    require(by, Action.MANAGE_USERS, None)
    user = User(username=User.normalize_username(name))
    try:
        user.clean_fields(exclude=("password",))
    except ValidationError as error:
        raise InvalidInput(f"name {name!r}: {' '.join(error.messages)}") from error
    if user.username.lower() == audit.AUTOMATIC:
        raise Refused(f"user {name!r}: that name is what the audit calls the system itself")
    if is_taken(user.username):
        raise Refused(f"user {name!r} exists already")
    _give_password(user, password)
    with audit.atomic():
        user.save()
    return user


def is_taken(name: str) -> bool:
    """By a user, also by one whose name looks alike, or by the system itself."""
    same = User.objects.filter(username__iexact=name)
    return name.lower() == audit.AUTOMATIC or same.exists()


@audit.attempted("change user", in_group=False, named=named)
def set_password(user: User, password: str, by: By) -> None:
    """Ends this person's sessions and API tokens. One's own needs no right. Raises InvalidInput,
    Refused: who logs in by the provider would get in without it.
    """
    if user.username != by.actor:
        require(by, Action.MANAGE_USERS, None)
    if SocialAccount.objects.filter(user=user).exists():
        raise Refused(f"{user.username} logs in by single sign-on and has no password here")
    _give_password(user, password)
    with audit.atomic():
        user.save(update_fields=["password"])
        api_tokens.end_all(user, by)


@audit.attempted("change user", in_group=False, named=named)
def set_active(user: User, active: bool, by: By) -> None:
    """Who is deactivated can neither log in nor go on. Again: nothing changes. Raises Refused."""
    require(by, Action.MANAGE_USERS, None)

    def change() -> None:
        found = User.objects.select_for_update().get(pk=user.pk)
        if found.is_active != active:
            found.is_active = active
            found.save(update_fields=["is_active"])

    _keeping_oneself(user, by, change)


@audit.attempted("grant role", in_group=False, named=named)
def grant(user: User, given: Grant, by: By) -> None:
    """Raises Refused: it is granted already, there are too many, or it shuts oneself out."""
    require(by, Action.MANAGE_USERS, None)
    if user.role_grants.count() >= GRANTS_MAX:
        raise Refused(f"{user.username} has {GRANTS_MAX} grants already")

    def change() -> None:
        _add(user, given, by)
        _record(by, "grant role", user, after=_said(given))

    try:
        _keeping_oneself(user, by, change)
    except IntegrityError as error:
        raise Refused(f"{user.username} has this already: {given}") from error


@audit.attempted("revoke role", in_group=False, named=named)
def revoke(row: RoleGrant, by: By) -> None:
    """Raises Refused: without it one shuts oneself out, or the provider's groups give it."""
    require(by, Action.MANAGE_USERS, None)
    if row.by_provider:
        raise Refused(
            f"{row} is given by the groups of {row.user.username} at the provider of single"
            " sign-on: it goes when they go"
        )

    def change() -> None:
        _remove(row, by)

    _keeping_oneself(row.user, by, change)


def follow_provider(user: User, given: Collection[Grant], by: By) -> None:
    """The grants that groups of the provider give are these and no others; what was granted here
    stays as it is. In a transaction.
    """
    held = {row.value: row for row in user.role_grants.filter(by_provider=True)}
    for value in held.keys() - set(given):
        _remove(held[value], by)
    for value in set(given) - held.keys():
        _add(user, value, by, by_provider=True)
        _record(by, "grant role", user, after=_said(value))


# --- parts ----------------------------------------------------------------------------------------


def _give_password(user: User, password: str) -> None:
    """Not named in the error: it is a secret. Raises InvalidInput."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidInput(" ".join(error.messages)) from error
    user.set_password(password)


def _keeping_oneself(user: User, by: By, change: Callable[[], None]) -> None:
    with audit.atomic(), _keeping_somebody():
        change()
        if user.username != by.actor:
            return
        if not rights.of_user(User.objects.get(pk=user.pk)).may(Action.MANAGE_USERS, None):
            raise Refused(f"{user.username} could not manage users any more: ask another admin")


@contextmanager
def _keeping_somebody() -> Iterator[None]:
    """In a transaction: those who take the right from each other at once wait here for each other,
    and the last one keeps it. Raises Refused.
    """
    was_managed = _is_managed()
    yield
    if was_managed and not _is_managed():
        raise Refused("nobody could manage users any more: make another admin first")


def _is_managed() -> bool:
    """By somebody; until the end of the transaction nobody else changes who that is."""
    admins = RoleGrant.objects.filter(role=Role.ADMIN).values("user_id")
    maybe = User.objects.filter(Q(is_superuser=True) | Q(pk__in=admins), is_active=True)
    keys = [user.pk for user in maybe.select_for_update().order_by("pk")]
    held = rights.of_users(keys).values()
    return any(one.may(Action.MANAGE_USERS, None) for one in held)


def _add(user: User, given: Grant, by: By, *, by_provider: bool = False) -> None:
    RoleGrant.objects.create(
        user=user,
        role=given.role,
        pattern=given.pattern,
        effect=given.effect,
        made_by=by.actor,
        by_provider=by_provider,
    )


def _remove(row: RoleGrant, by: By) -> None:
    row.delete()
    _record(by, "revoke role", row.user, before=_said(row))


def _said(given: Grant | RoleGrant) -> dict[str, str]:
    return {name: str(getattr(given, name)) for name in ("effect", "role", "pattern")}


def _record(by: By, action: str, user: User, **change: Any) -> None:
    audit.record(by, action, object=named(user), **change)
    transaction.on_commit(push.push_rights)  # whoever has a page open is asked again at once
