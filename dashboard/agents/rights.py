"""Which users Redis should have, by the tokens that the database has; put there, and kept there.

A tick puts back what a restart or a failover took. What cannot be done now is left to it.
"""

import hashlib
import logging
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial

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
from dashboard.agents.issued import valid_at
from dashboard.agents.producer_token import ProducerToken
from dashboard.live import rights as live
from dashboard.live.connection import StoreUnavailable
from dashboard.live.rights import Ability, Rights, Users
from dashboard.models import AgentToken

COMPARE_EVERY_S = 5.0  # what a command or another process changed in between
ANEW_EVERY_S = 600.0  # what a command made of a user that is there
LATELY = timedelta(minutes=10)  # longer than any comparison takes
Token = AgentToken | ProducerToken

log = logging.getLogger(__name__)


def keep() -> None:
    """Scripts and users on every node. Raises StoreUnavailable and DatabaseError."""
    found = live.look()
    if found.missing:
        live.load_scripts(found)
    last, by = live.compared(), f"{found.run} {_rules(found.server, settings.SECRET_KEY)}"
    is_new = last.by != by  # of another process too: all users are made once, not by each
    if not is_new and abs(found.now_ms - last.at_ms) < COMPARE_EVERY_S * 1e3:
        return
    is_old = abs(found.now_ms - last.anew_ms) >= ANEW_EVERY_S * 1e3
    anew = is_new or is_old or not last.is_whole
    ours = live.ours()  # before the database: it has them first
    ours |= _ended(None if anew else timezone.now() - LATELY)
    done = live.compare(found, _wanted(found.server), ours, anew=anew)
    live.note(done)
    anew_ms = found.now_ms if anew else last.anew_ms
    live.note_compared(live.Compared(not done.unreached, found.now_ms, anew_ms, by))


@lru_cache(maxsize=2)
def _rules(server: Server, secret_key: str) -> str:
    """Another text where this version would make other users. `secret_key` names the broker's."""
    broker = {name: made() for name, made in live.broker_user(server).items()}
    rules = agent_rules(server, "g", "s"), producer_rules(server, "s"), broker
    return hashlib.sha256(repr(rules).encode()).hexdigest()


def admit(token: Token) -> None:
    """Its user is there before anybody has the token, where Redis can be asked now."""
    try:
        found = live.look()
        live.load_scripts(found)
        live.note(live.put(found, {user_of(token.digest): partial(rights_of, token, found.server)}))
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
        return _of_producer(server, token.digest, token.stream)
    return _of_agent(server, token.digest, token.group.name, token.group.stream)


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


def _wanted(server: Server) -> Users:
    """Of all tokens that are valid now, and of the broker."""
    valid = valid_at(timezone.now())
    agents = AgentToken.objects.filter(valid).values_list("digest", "group__name", "group__stream")
    producers = ProducerToken.objects.filter(valid).values_list("digest", "stream")
    return {
        **live.broker_user(server),
        **{user_of(digest): partial(_of_agent, server, digest, *of) for digest, *of in agents},
        **{user_of(digest): partial(_of_producer, server, digest, of) for digest, of in producers},
    }


def _of_agent(server: Server, digest: str, group: str, stream: str) -> Rights:
    return Rights(digest, agent_rules(server, group, stream))


def _of_producer(server: Server, digest: str, stream: str) -> Rights:
    return Rights(digest, producer_rules(server, stream))


def _ended(since: datetime | None) -> set[str]:
    """Names of tokens that ended: all, whom a node that was away may know still; or lately, whom a
    comparison may have put back that had read the database before.
    """
    now = timezone.now()
    first = since or datetime.fromtimestamp(0, UTC)
    ended = Q(revoked_at__gte=first) | Q(expires_at__gte=first, expires_at__lte=now)
    agents = AgentToken.objects.filter(ended).values_list("digest", flat=True)
    producers = ProducerToken.objects.filter(ended).values_list("digest", flat=True)
    return {user_of(digest) for digest in (*agents, *producers)}
