"""Logins: those that still hold, which open sockets ask again, all of a process with two queries;
and how all of a person end.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

AT_ONCE = 500  # SQLite's limit of variables is 32,766


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


def end_all(user_pk: int) -> int:
    """Of this person, for good; how many. A session does not tell whose it is, so each is read."""
    live = Session.objects.filter(expire_date__gt=timezone.now()).iterator(chunk_size=500)
    keys = [row.session_key for row in live if row.get_decoded().get(SESSION_KEY) == str(user_pk)]
    for first in range(0, len(keys), AT_ONCE):
        Session.objects.filter(session_key__in=keys[first : first + AT_ONCE]).delete()
    return len(keys)


def _may_go_on(user: Any, login: Login) -> bool:
    if user is None or not user.is_active:
        return False
    known = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return any(constant_time_compare(one, login.digest) for one in known)
