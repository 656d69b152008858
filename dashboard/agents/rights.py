"""Which users Redis should have, by the tokens that the database has; put there, and kept there.

A tick puts back what a restart or a failover took. What cannot be done now is left to it.
"""

import logging
import time
from collections.abc import Iterable

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from assignment.rights import (
    Server,
    agent_rules,
    producer_rules,
    user_of,
    with_login,
    without_login,
)
from dashboard.agents.producer_token import ProducerToken
from dashboard.live import rights as live
from dashboard.live.connection import StoreUnavailable
from dashboard.live.rights import Ability, Found, Put, Rights
from dashboard.models import AgentToken

COMPARE_EVERY_S = 5.0  # what a command or another process changed in between
Token = AgentToken | ProducerToken

log = logging.getLogger(__name__)
_kept: dict[str, tuple[str, float]] = {}  # address -> the run that has all, when it was compared


def keep() -> None:
    """Scripts and users on every node. Raises StoreUnavailable and DatabaseError."""
    found = live.look()
    run, at_s = _kept.get(settings.REDIS_URL, ("", 0.0))
    is_new = run != found.run
    if found.missing or is_new:
        live.load_scripts(found, everywhere=is_new)
    if is_new or time.monotonic() - at_s >= COMPARE_EVERY_S:
        live.note(_keep_users(found, all_of_them=is_new))
        _kept[settings.REDIS_URL] = found.run, time.monotonic()


def _keep_users(found: Found, *, all_of_them: bool) -> Put:
    try:
        there, ours = live.users()  # before the database: it has them first
    except live.UsersRefused as error:
        log.warning("users of Redis are not looked at: %s", error)
        return Put(Ability.NONE)
    valid = _by_name(found.server)
    missing = {name: one for name, one in valid.items() if all_of_them or name not in there}
    gone = _ended() | (ours - valid.keys())  # also of rows that were deleted
    return live.put(found, missing, sorted(gone & there))


def admit(token: Token) -> None:
    """Its user is there before anybody has the token, where Redis can be asked now."""
    try:
        found = live.look()
        live.load_scripts(found, everywhere=False)
        live.note(live.put(found, {user_of(token.digest): rights_of(token, found.server)}))
    except StoreUnavailable as error:
        log.warning("the user of a token waits for Redis: %s", error)


def dismiss(token: Token) -> None:
    """Ends its connections to Redis."""
    try:
        live.note(live.put(live.look(), {}, [user_of(token.digest)]))
    except StoreUnavailable as error:
        log.warning("the user of a revoked token waits for Redis: %s", error)


def rights_of(token: Token, server: Server) -> Rights:
    """Of a group's stream as the database has it, not as Redis does, which agents write."""
    if isinstance(token, ProducerToken):
        return Rights(token.digest, producer_rules(server, token.stream))
    group = token.group
    return Rights(token.digest, agent_rules(server, group.name, group.stream))


def agents_redis_url() -> str:
    """For whoever has a token."""
    return _unless_refused(without_login(settings.REDIS_URL))


def producers_redis_url(token_text: str) -> str:
    return _unless_refused(with_login(without_login(settings.REDIS_URL), token_text))


def _unless_refused(url: str) -> str:
    """The dashboard's own address, where Redis lets us make no users."""
    try:
        noted = live.noted()
    except StoreUnavailable:
        noted = None
    return settings.REDIS_URL if noted and noted.ability is Ability.NONE else url


def _by_name(server: Server) -> dict[str, Rights]:
    now = timezone.now()
    valid = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))
    tokens: Iterable[Token] = (
        *AgentToken.objects.filter(valid).select_related("group"),
        *ProducerToken.objects.filter(valid),
    )
    return {user_of(token.digest): rights_of(token, server) for token in tokens}


def _ended() -> set[str]:
    ended = Q(revoked_at__isnull=False) | Q(expires_at__lte=timezone.now())
    agents = AgentToken.objects.filter(ended).values_list("digest", flat=True)
    producers = ProducerToken.objects.filter(ended).values_list("digest", flat=True)
    return {user_of(digest) for digest in (*agents, *producers)}
