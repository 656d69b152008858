"""Tokens of producers: a user of Redis each, that appends to one stream and nothing else."""

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from assignment.errors import InvalidInput
from assignment.rights import digest_of
from assignment.types import valid_name
from dashboard.actions.access import require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.agents import rights, tokens
from dashboard.agents.producer_token import NAME_MAX, ProducerToken
from dashboard.models import Group
from dashboard.records import audit
from dashboard.records.audit import By

TOKEN_NAME = "producers"


@dataclass(frozen=True, slots=True)
class MadeProducerToken:
    """`text` is shown once; `redis_url` holds it."""

    token: ProducerToken
    text: str
    redis_url: str


def create_token(
    stream: str, by: By, *, name: str = TOKEN_NAME, expires_at: datetime | None = None
) -> MadeProducerToken:
    """For a stream that a group reads: it is there. It takes the right in all groups, for several
    may read the stream. Raises InvalidInput.
    """
    require(by, Action.MANAGE_TOKENS, None)
    valid_name("stream", stream)
    if not name.strip() or len(name) > NAME_MAX:
        raise InvalidInput(f"token name {name!r} is not of 1 to {NAME_MAX} characters")
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidInput(f"the expiry {expires_at.isoformat()} is past")
    if not Group.objects.filter(stream=stream).exists():
        raise InvalidInput(f"no group reads a stream {stream!r}: create the group first")
    text = tokens.make(tokens.PRODUCER_PREFIX)
    with audit.atomic():
        token = ProducerToken.objects.create(
            stream=stream,
            name=name.strip(),
            digest=digest_of(text),
            created_by=by.actor,
            expires_at=expires_at,
        )
        _audit("create producer token", token, by)
    rights.admit(token)
    return MadeProducerToken(token, text, rights.producers_redis_url(text))


def revoke_tokens(stream: str, name: str, by: By) -> int:
    """How many of that name were valid; their connections end. Raises Refused: none was."""
    require(by, Action.MANAGE_TOKENS, None)
    with audit.atomic():
        found = ProducerToken.objects.select_for_update().filter(
            stream=stream, name=name, revoked_at=None
        )
        revoked = list(found)
        for token in revoked:
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            _audit("revoke producer token", token, by)
    if not revoked:
        raise Refused(f"stream {stream!r} has no valid producer token {name!r}")
    for token in revoked:
        rights.dismiss(token)
    return len(revoked)


def _audit(action: str, token: ProducerToken, by: By) -> None:
    expires_at = token.expires_at and token.expires_at.isoformat()
    after = {"token": token.pk, "expires_at": expires_at}
    audit.record(by, action, object=f"{token.stream}/{token.name}", after=after)
