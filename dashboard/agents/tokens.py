"""Agents' tokens: 256 random bits, stored as SHA-256, shown once.

The process remembers what the database said for a few seconds, so that a heartbeat costs no SQL and
a revoked token still stops within seconds.
"""

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Q
from django.utils import timezone

from dashboard.models import AgentToken, Group

REMEMBERED_S = 3.0
REMEMBERED_MAX = 20_000  # of known and of refused tokens together; the oldest go
USED_EVERY_S = 60.0  # last_used_at is good to a minute
PREFIX = "ekt_"  # so that a leaked one is recognised by secret scanners


@dataclass(frozen=True, slots=True)
class Known:
    digest: str
    token_id: int  # 0 when the database has no such valid token
    group: str
    expires_at: datetime | None
    read_at: float  # monotonic seconds

    def is_valid(self, digest: str, now: datetime) -> bool:
        """The comparison takes the same time whatever differs."""
        same = hmac.compare_digest(self.digest, digest)
        return same and self.token_id > 0 and (self.expires_at is None or now < self.expires_at)


def make() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Remembered:
    """Tokens lately read from the database, by digest."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()

    def get(self, digest: str) -> Known | None:
        known = self._known.get(digest)
        if known is None or time.monotonic() - known.read_at > REMEMBERED_S:
            return None
        return known

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
        .values_list("id", "digest", "group__name", "expires_at", "last_used_at")
        .first()
    )
    if row is None:
        return Known(digest, 0, "", None, time.monotonic())
    token_id, stored, group, expires_at, last_used_at = row
    if last_used_at is None or (now - last_used_at).total_seconds() > USED_EVERY_S:
        AgentToken.objects.filter(id=token_id).update(last_used_at=now)
    return Known(stored, token_id, group, expires_at, time.monotonic())


def group_exists(name: str) -> bool:
    return Group.objects.filter(name=name).exists()


def now_utc() -> datetime:
    return datetime.now(UTC)
