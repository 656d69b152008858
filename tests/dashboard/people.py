"""People with what is granted to them."""

from django.contrib.auth.models import User
from django.test import Client

from dashboard.actions.roles import EVERY_GROUP, Effect, Grant, Rights, Role
from dashboard.records.grants import RoleGrant
from tests.dashboard.reading import Reader


def of(*said: str) -> Rights:
    """`allow operator team-*`"""
    words = [text.split() for text in said]
    return Rights(
        tuple(Grant(role=Role(role), pattern=p, effect=Effect(e)) for e, role, p in words)
    )


def granted(
    user: User, role: str, pattern: str = EVERY_GROUP, effect: str = "allow", **more: object
) -> RoleGrant:
    return RoleGrant.objects.create(
        user=user, role=Role(role), pattern=pattern, effect=Effect(effect), made_by="test", **more
    )


def logged_in(user: User, **how: bool) -> Client:
    client = Reader(**how)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client
