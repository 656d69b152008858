"""Agents' tokens: 256 random bits, stored as SHA-256, shown once.

The process remembers what the database said for a few seconds, so that a heartbeat costs no SQL and
a revoked token still stops within seconds; for longer while the database is away, so that agents
can go on and join.
"""

import hmac
import secrets
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError
from django.db.models import Q
from django.utils import timezone

from assignment import rights
from dashboard.models import AgentToken, Group

REMEMBERED_S = 3.0
OUTAGE_S = 3_600.0  # what it said so long ago counts no more, even while it is away
REMEMBERED_MAX = 20_000  # of known and of refused tokens together; the oldest go
USED_EVERY_S = 60.0  # last_used_at is good to a minute
PREFIX, PRODUCER_PREFIX = "ekt_", "ekp_"  # a leaked one is recognised by secret scanners


@dataclass(frozen=True, slots=True)
class Known:
    digest: str
    token_id: int  # 0 when the database has no such valid token
    group: str
    expires_at: datetime | None
    read_at: float  # monotonic seconds
    stream: str = ""  # of the group
    partitions: int = 0

    def is_valid(self, digest: str, now: datetime) -> bool:
        """The comparison takes the same time whatever differs."""
        same = hmac.compare_digest(self.digest, digest)
        return same and self.token_id > 0 and (self.expires_at is None or now < self.expires_at)


digest_of = rights.digest_of


def make(prefix: str = PREFIX) -> str:
    return prefix + secrets.token_urlsafe(32)


class Remembered:
    """Tokens lately read from the database, by digest."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._away_until = 0.0  # monotonic: then the database is asked again

    def get(self, digest: str) -> Known | None:
        known, now = self._known.get(digest), time.monotonic()
        most_s = OUTAGE_S if now < self._away_until else REMEMBERED_S
        return None if known is None or now - known.read_at > most_s else known

    def database_is_away(self) -> None:
        self._away_until = time.monotonic() + REMEMBERED_S

    def put(self, known: Known) -> None:
        self._known[known.digest] = known
        self._known.move_to_end(known.digest)
        while len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)


def read(digest: str) -> Known:
    """Asks the database; marks the token as used."""
    now = timezone.now()
    row = (
        AgentToken.objects.filter(digest=digest, revoked_at=None)
        .filter(Q(expires_at=None) | Q(expires_at__gt=now))
        .values_list(
            *("id", "digest", "group__name", "expires_at", "last_used_at"),
            *("group__stream", "group__partitions"),
        )
        .first()
    )
    if row is None:
        return Known(digest, 0, "", None, time.monotonic())
    token_id, stored, group, expires_at, last_used_at, stream, partitions = row
    if last_used_at is None or (now - last_used_at).total_seconds() > USED_EVERY_S:
        with suppress(DatabaseError):  # one that refuses writes
            AgentToken.objects.filter(id=token_id).update(last_used_at=now)
    return Known(stored, token_id, group, expires_at, time.monotonic(), stream, partitions)


def group_exists(name: str) -> bool:
    return Group.objects.filter(name=name).exists()
