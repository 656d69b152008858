"""Tokens of producers: a user of Redis each, that appends to one stream and nothing else."""

import shlex
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from assignment.errors import InvalidInput
from assignment.rights import digest_of
from assignment.types import valid_name
from dashboard.actions.access import require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.agents import issued, rights
from dashboard.agents.producer_token import ProducerToken
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


@audit.attempted("create producer token", in_group=False)
def create_token(
    stream: str, by: By, *, name: str = TOKEN_NAME, expires_at: datetime | None = None
) -> MadeProducerToken:
    """For a stream that a group reads: it is there. Raises InvalidInput."""
    require(by, Action.MANAGE_PRODUCERS, None)
    valid_name("stream", stream)
    name = issued.checked_name(name, expires_at)
    if not Group.objects.filter(stream=stream).exists():
        raise InvalidInput(f"no group reads a stream {stream!r}: create the group first")
    text = issued.make(issued.PRODUCER_PREFIX)
    with audit.atomic():
        token = ProducerToken.objects.create(
            stream=stream,
            name=name,
            digest=digest_of(text),
            created_by=by.actor,
            expires_at=expires_at,
        )
        _audit("create producer token", token, by)
    rights.admit(token)
    return MadeProducerToken(token, text, rights.producers_redis_url(text))


@audit.attempted("revoke producer token", in_group=False)
def revoke_token(token: ProducerToken, by: By) -> ProducerToken:
    """Its connections end. Revoking again changes nothing."""
    require(by, Action.MANAGE_PRODUCERS, None)
    with audit.atomic():
        token = ProducerToken.objects.select_for_update().get(pk=token.pk)
        if token.revoked_at is None:
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            _audit("revoke producer token", token, by)
    rights.dismiss(token)
    return token


@audit.attempted("revoke producer token", in_group=False)
def revoke_tokens(stream: str, name: str, by: By) -> int:
    """How many of that name were not revoked before. Raises Refused: none was."""
    require(by, Action.MANAGE_PRODUCERS, None)
    found = list(ProducerToken.objects.filter(stream=stream, name=name, revoked_at=None))
    if not found:
        raise Refused(f"stream {stream!r} has no valid producer token {name!r}")
    return len([revoke_token(token, by) for token in found])


def command(made: MadeProducerToken) -> str:
    """What to run beside whatever the events come from, ready to paste."""
    return (
        f"EVENKEEL_REDIS_URL={shlex.quote(made.redis_url)}"
        f" evenkeel-producer --stream {made.token.stream} --key FIELD"
    )


def _audit(action: str, token: ProducerToken, by: By) -> None:
    expires_at = token.expires_at and token.expires_at.isoformat()
    after = {"token": token.pk, "expires_at": expires_at}
    audit.record(by, action, object=f"{token.stream}/{token.name}", after=after)
