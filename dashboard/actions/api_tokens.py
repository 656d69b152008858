"""Tokens of people for the API: each makes and revokes their own, on a page, by their session."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from assignment.errors import InvalidInput
from dashboard.actions.access import require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.agents import issued
from dashboard.records import audit
from dashboard.records.audit import By
from dashboard.records.person_token import PersonToken

DAYS_MAX = 366  # every token of a person ends
VALID_MAX = 50  # of one person at a time


@dataclass(frozen=True, slots=True)
class MadeApiToken:
    """`text` is shown once and known to nobody afterwards."""

    token: PersonToken
    text: str


def named(target: User | PersonToken) -> str:
    """As entries of the audit name it."""
    return f"user {target.username}" if isinstance(target, User) else f"API token {target}"


@audit.attempted("create API token", in_group=False, named=named)
def create(
    user: User, by: By, *, name: str, scopes: Collection[Action], expires_at: datetime
) -> MadeApiToken:
    """Of whoever asks. To look is in every scope. Raises InvalidInput, Refused: there are too many,
    or it is somebody else's.
    """
    if by.actor != user.username:
        raise Refused("nobody makes a token that speaks for somebody else")
    name = issued.checked_name(name, expires_at)
    if expires_at > timezone.now() + timedelta(days=DAYS_MAX):
        raise InvalidInput(f"the expiry {expires_at.isoformat()} is more than {DAYS_MAX} days away")
    if user.api_tokens.filter(issued.valid_at(timezone.now())).count() >= VALID_MAX:
        raise Refused(f"{user.username} has {VALID_MAX} valid tokens already: revoke one")
    text = issued.make(issued.PERSON_PREFIX)
    with audit.atomic():
        token = PersonToken.objects.create(
            user=user,
            name=name,
            digest=issued.digest_of(text),
            created_by=by.actor,
            expires_at=expires_at,
            scopes=sorted(action.key for action in {Action.SEE, *scopes}),
        )
        after = {"scopes": token.scopes, "expires_at": expires_at.isoformat()}
        audit.record(by, "create API token", object=named(token), after=after)
    return MadeApiToken(token, text)


def end_all(user: User, by: By) -> None:
    """To be asked in `audit.atomic`, by who was asked for the right to."""
    for token in user.api_tokens.select_for_update().filter(revoked_at=None):
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])
        audit.record(by, "revoke API token", object=named(token))


@audit.attempted("revoke API token", in_group=False, named=named)
def revoke(token: PersonToken, by: By) -> PersonToken:
    """Refused with its next request. One's own needs no right. Revoking again changes nothing."""
    if by.actor != token.user.username:
        require(by, Action.MANAGE_USERS, None)
    with audit.atomic():
        token = PersonToken.objects.select_for_update().select_related("user").get(pk=token.pk)
        if token.revoked_at is None:
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            audit.record(by, "revoke API token", object=named(token))
    return token
