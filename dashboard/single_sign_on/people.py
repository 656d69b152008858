"""Who of those whom the provider knows gets in: as a user of their own, with what their groups
give, asked anew at each log in.
"""

import hashlib
import re
from datetime import timedelta

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.utils import timezone

from dashboard.actions import api_tokens, users
from dashboard.actions.roles import Grant
from dashboard.records import audit
from dashboard.records.audit import By
from dashboard.single_sign_on.configuration import Configuration
from dashboard.single_sign_on.provider import Person, Refused

TOKENS = timedelta(days=7)  # so long after a log in their API tokens go on
SESSION = timedelta(hours=12)  # then the provider is asked again: who left it is out by then
NAME_MAX = 100  # characters of a user's name that are the provider's
NOT_OF_A_NAME = re.compile(r"[^\w.@+-]+")
DIGEST_LENGTH = 8


class KnownElsewhere(ModelBackend):
    """Of sessions that began by single sign-on; no password leads to it."""

    def authenticate(self, request: object, **credentials: object) -> None:  # type: ignore[override]
        return None


class NotLetIn(Refused):
    """The provider knows this person, we let nobody like that in. A sentence."""


def admit(configured: Configuration, person: Person, by: By) -> User:
    """Their user, made at the first log in, with the grants of their groups. Raises NotLetIn."""
    grants = configured.grants(person.groups)
    user = user_of(person)
    if user is not None and not user.is_active:
        raise NotLetIn(f"user {user.username} is deactivated: ask an admin of this dashboard")
    if not grants:
        if user is not None:
            _shut_out(user, by)
        raise NotLetIn(
            f"{configured.name} knows you, but none of your groups there has a role here: ask an"
            " admin of this dashboard"
        )
    return _made(person, grants, by) if user is None else _followed(user, grants, by)


def user_of(person: Person) -> User | None:
    """By issuer and subject: whatever else the provider says may be somebody else's tomorrow."""
    found = SocialAccount.objects.filter(provider=person.issuer, uid=person.subject)
    account = found.select_related("user").first()
    return account.user if account else None


def identity_of(user: User) -> SocialAccount | None:
    return SocialAccount.objects.filter(user=user).first()


def why_unknown(user: User) -> str:
    """Why no API token of theirs opens anything now; "" when it may."""
    if identity_of(user) is None:
        return ""
    asked = user.last_login
    if settings.SINGLE_SIGN_ON is None or asked is None or timezone.now() - asked > TOKENS:
        return "its person has to log in by single sign-on again"
    return ""


def name_for(person: Person) -> str:
    """What the provider calls them, unless a user is called so, or nearly so, already."""
    digest = hashlib.sha256(f"{person.issuer} {person.subject}".encode()).hexdigest()
    name = User.normalize_username(person.name[:NAME_MAX])
    name = NOT_OF_A_NAME.sub("-", name).strip("-")[:NAME_MAX] or "user"
    return f"{name}-{digest[:DIGEST_LENGTH]}" if users.is_taken(name) else name


def _made(person: Person, grants: frozenset[Grant], by: By) -> User:
    """Raises NotLetIn: the same person logs in twice at this moment."""
    user = User(username=name_for(person))
    user.set_unusable_password()
    try:
        with audit.atomic():
            user.save()
            SocialAccount.objects.create(user=user, provider=person.issuer, uid=person.subject)
            users.follow_provider(user, grants, by)
    except IntegrityError as error:
        raise NotLetIn("you are logged in by another window at this moment: try again") from error
    return user


def _followed(user: User, grants: frozenset[Grant], by: By) -> User:
    with audit.atomic():
        users.follow_provider(user, grants, by)
    return user


def _shut_out(user: User, by: By) -> None:
    """Out of all groups that count: what was given goes, and so do sessions that are open."""
    with audit.atomic():
        users.follow_provider(user, frozenset(), by)
        user.set_unusable_password()  # another one that nobody has: sessions hang on it
        user.save(update_fields=["password"])
        api_tokens.end_all(user, by)
