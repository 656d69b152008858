"""Logins that still hold: what open sockets ask again, all of a process with two queries."""

from collections.abc import Collection
from typing import Any, NamedTuple

from django.contrib.auth import HASH_SESSION_KEY, get_user_model
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare


class Login(NamedTuple):
    """A person in a session; `digest` is of the password that it began with."""

    session_key: str
    user_pk: int
    digest: str


def login_of(session: Any, user: Any) -> Login:
    return Login(str(session.session_key), user.pk, str(session.get(HASH_SESSION_KEY, "")))


def ended(logins: Collection[Login]) -> set[Login]:
    """Those that were logged out, deactivated, or given another password. Raises DatabaseError."""
    keys = {login.session_key for login in logins}
    live = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    alive = set(live.values_list("session_key", flat=True))
    users = get_user_model().objects.in_bulk({login.user_pk for login in logins})
    return {
        login
        for login in logins
        if login.session_key not in alive or not _may_go_on(users.get(login.user_pk), login)
    }


def _may_go_on(user: Any, login: Login) -> bool:
    if user is None or not user.is_active:
        return False
    known = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return any(constant_time_compare(one, login.digest) for one in known)
