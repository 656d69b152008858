"""What people do before and beside their actions, on record: log in, fail to, are locked out, log
out, and what becomes of users and their rights.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from axes.signals import user_locked_out
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.contrib.auth.models import Group as UserGroup
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_save
from django.http import HttpRequest
from django.utils import timezone

from dashboard.live import push
from dashboard.models import AuditSource
from dashboard.records import audit, sessions
from dashboard.records.audit import By

WAY = "logged_in_by"  # of a request that logs in by another way than a password: a sentence
SINGLE_SIGN_ON = "single sign-on"
LOG_IN, FAILED, LOCKOUT, LOG_OUT = "log in", "failed log in", "lockout", "log out"
SHOWN = ("username", "first_name", "last_name", "email", "is_active", "is_staff", "is_superuser")
SECRET = "password"  # that it changed is recorded, never what it is
WAS, IS = "(not shown)", "(another one, not shown)"
BEFORE = "_audited_before"


def connect() -> None:
    """Once, when Django is ready."""
    user_logged_in.connect(_logged_in, dispatch_uid="audit log in")
    user_logged_out.connect(_logged_out, dispatch_uid="audit log out")
    user_login_failed.connect(_failed, dispatch_uid="audit failed log in")
    user_locked_out.connect(_locked_out, dispatch_uid="audit lockout")
    for model in (User, UserGroup):
        pre_save.connect(_before_save, sender=model, dispatch_uid=f"audit before {model}")
        post_save.connect(_saved, sender=model, dispatch_uid=f"audit {model}")
        post_delete.connect(_deleted, sender=model, dispatch_uid=f"audit deleted {model}")
    post_delete.connect(_session_ended, sender=Session, dispatch_uid="session ended")
    many = (User.groups, User.user_permissions, UserGroup.permissions)
    for through in (relation.through for relation in many):
        m2m_changed.connect(_rights_changed, sender=through, dispatch_uid=f"audit {through}")


def address_of(request: HttpRequest | None) -> str:
    return "" if request is None else str(request.META.get("REMOTE_ADDR") or "")


def _by(name: str, request: HttpRequest | None) -> By:
    way = getattr(request, WAY, "")
    return By(name, AuditSource.PAGE, way, address=address_of(request))


def by_provider(request: HttpRequest, person: str) -> By:
    """What is done because the provider says so of a person: nobody here asked for it."""
    reason = f"by {SINGLE_SIGN_ON}, {person}"
    setattr(request, WAY, reason)
    return By(audit.AUTOMATIC, AuditSource.PAGE, reason, address=address_of(request))


def failed_elsewhere(request: HttpRequest, why: str) -> None:
    """A log in that was not by name and password."""
    result = f"{audit.FAILED}: {why}"
    audit.tried(_by("", request), FAILED, object=SINGLE_SIGN_ON, result=result)


def _by_claim(name: str, request: HttpRequest | None) -> By:
    """Whoever gives a name is a stranger, unless they are logged in by it: who changes their own
    password.
    """
    user = getattr(request, "user", AnonymousUser())
    is_own = user.is_authenticated and user.get_username() == name
    return replace(_by(name, request), is_stranger=not is_own)


# --- log in and out -------------------------------------------------------------------------------


def _logged_in(request: HttpRequest, user: User, **_: Any) -> None:
    audit.record(_by(user.username, request), LOG_IN, object=user.username)


def _logged_out(request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        audit.record(_by(user.username, request), LOG_OUT, object=user.username)


def _session_ended(instance: Session, **_: Any) -> None:
    """By a log out, whose own signal comes before it, or otherwise."""
    if instance.expire_date > timezone.now():  # else it had ended before
        _tell_sockets()


def _tell_sockets() -> None:
    """Whose login ended has no open page any more: said once that is stored."""
    transaction.on_commit(push.push_rights)


def _failed(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    if getattr(request, "axes_locked_out", False):
        return  # told as a lockout
    name = str(credentials.get("username") or "")
    audit.tried(_by_claim(name, request), FAILED, object=name, result=audit.FAILED)


def _locked_out(request: HttpRequest, username: str | None, **_: Any) -> None:
    name = str(username or "")
    result = f"{audit.DENIED}: too many failed log ins"
    audit.tried(_by_claim(name, request), LOCKOUT, object=name, result=result)


# --- users and rights -----------------------------------------------------------------------------


def _what(row: User | UserGroup) -> str:
    return f"user {row.username}" if isinstance(row, User) else f"role {row.name}"


def _kind(row: User | UserGroup) -> str:
    return "user" if isinstance(row, User) else "role"


def _values(row: User | UserGroup) -> dict[str, Any]:
    names = (*SHOWN, SECRET) if isinstance(row, User) else ("name",)
    return {name: getattr(row, name) for name in names}


def _before_save(sender: Any, instance: User | UserGroup, raw: bool = False, **_: Any) -> None:
    stored = None if raw or instance.pk is None else sender.objects.filter(pk=instance.pk).first()
    setattr(instance, BEFORE, stored and _values(stored))


def _saved(sender: Any, instance: User | UserGroup, created: bool, **_: Any) -> None:
    before, after = getattr(instance, BEFORE, None), _values(instance)
    by, what = audit.by_whoever_acts(), _what(instance)
    if before is None:
        audit.record(by, f"create {_kind(instance)}", object=what, after=_shown(after))
        return
    changed = {name for name in after if after[name] != before[name]}
    if changed:
        was = _shown({name: before[name] for name in changed})
        now = _shown({name: after[name] for name in changed})
        if SECRET in changed:
            was[SECRET], now[SECRET] = WAS, IS
        audit.record(by, f"change {_kind(instance)}", object=what, before=was, after=now)
        if "is_active" in changed:  # both ways: what was begun before holds no more
            sessions.end_all(instance.pk)
        _tell_sockets()


def _shown(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != SECRET and value != ""}


def _deleted(sender: Any, instance: User | UserGroup, **_: Any) -> None:
    before = _shown(_values(instance))
    by = audit.by_whoever_acts()
    audit.record(by, f"delete {_kind(instance)}", object=_what(instance), before=before)
    _tell_sockets()


def _rights_changed(
    instance: Any, action: str, pk_set: Iterable[int] | None, model: Any, **_: Any
) -> None:
    """Groups of a user, permissions of either; from both sides of the relation."""
    if action not in ("post_add", "post_remove", "pre_clear"):
        return
    if action == "pre_clear":
        names = ["all"]
    else:
        names = sorted(_name(row) for row in model.objects.filter(pk__in=pk_set or ()))
    if not names:
        return
    relation = {UserGroup: "roles", Permission: "permissions", User: "users"}[model]
    what = _what(instance) if isinstance(instance, User | UserGroup) else _name(instance)
    by, these = audit.by_whoever_acts(), {relation: names}
    before, after = (None, these) if action == "post_add" else (these, None)
    audit.record(by, "change rights", object=what, before=before, after=after)
    _tell_sockets()


def _name(row: Any) -> str:
    names = {Permission: "codename", User: "username", UserGroup: "name"}
    return str(getattr(row, names[type(row)]))
