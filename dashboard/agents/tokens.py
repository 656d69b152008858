"""Agents' tokens: 256 random bits, stored as SHA-256, shown once.

The process remembers what the database said for a few seconds, so that a heartbeat costs no SQL;
for longer while the database is away, so that agents can go on and join. What was revoked
meanwhile is asked for by one request for all, LOOK_EVERY_S apart, before it is answered.
"""

import hmac
import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DatabaseError
from django.utils import timezone

from dashboard.agents.issued import digest_of as digest_of  # noqa: PLC0414
from dashboard.agents.issued import is_used_anew, valid_at
from dashboard.agents.issued import make as make  # noqa: PLC0414
from dashboard.models import AgentToken, AuditSource, Group
from dashboard.records import audit
from dashboard.records.audit import By

REMEMBERED_S = 3.0
LOOK_EVERY_S = 0.7  # a revoked token is refused within a second
LOOK_BACK_S = 60.0  # so far may the clocks of two web processes' machines be apart
LOOK_WAIT_S = 0.25  # for a database that is slow; then what is remembered counts
OUTAGE_S = 3_600.0  # what it said so long ago counts no more, even while it is away
REMEMBERED_MAX = 20_000  # of known and of refused tokens together; the oldest go


@dataclass(frozen=True, slots=True)
class Known:
    digest: str
    token_id: int  # 0 when the database has no such valid token
    group: str
    expires_at: datetime | None
    read_at: float  # monotonic seconds
    stream: str = ""  # of the group
    partitions: int = 0

    def is_valid(self, digest: str) -> bool:
        """Now. The comparison takes the same time whatever differs."""
        same = hmac.compare_digest(self.digest, digest)
        until = self.expires_at
        return same and self.token_id > 0 and (until is None or timezone.now() < until)


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

    def forget(self, digests: Iterable[str]) -> None:
        """Those that were valid; a refusal stays remembered."""
        for digest in digests:
            if (known := self._known.get(digest)) and known.token_id:
                del self._known[digest]

    def put(self, known: Known) -> None:
        self._known[known.digest] = known
        self._known.move_to_end(known.digest)
        while len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)


def revoked_lately() -> list[str]:
    """Digests. Raises DatabaseError."""
    since = timezone.now() - timedelta(seconds=LOOK_BACK_S)
    return list(
        AgentToken.objects.filter(revoked_at__gte=since).order_by().values_list("digest", flat=True)
    )


def read(digest: str, address: str = "") -> Known:
    """Asks the database; marks the token as used. One that is not valid any more is on record."""
    now = timezone.now()
    row = (
        AgentToken.objects.filter(valid_at(now), digest=digest)
        .values_list(
            *("id", "digest", "group__name", "expires_at", "last_used_at"),
            *("group__stream", "group__partitions"),
        )
        .first()
    )
    if row is None:
        with suppress(DatabaseError):
            _note_ended(digest, address)
        return Known(digest, 0, "", None, time.monotonic())
    token_id, stored, group, expires_at, last_used_at, stream, partitions = row
    if is_used_anew(last_used_at, now):
        with suppress(DatabaseError):  # one that refuses writes
            AgentToken.objects.filter(id=token_id).update(last_used_at=now)
    return Known(stored, token_id, group, expires_at, time.monotonic(), stream, partitions)


def _note_ended(digest: str, address: str) -> None:
    token = AgentToken.objects.select_related("group").filter(digest=digest).first()
    if token is not None:
        why = f"the token is {token.state}"
        audit.denied(_by(token, address), "use token", token.group, object=named(token), why=why)


def note_other_group(token_id: int, group: str, address: str) -> None:
    """It spoke for another group than its own."""
    token = AgentToken.objects.select_related("group").filter(pk=token_id).first()
    if token is not None:
        why = f"it speaks for {token.group.name!r}, not for {group!r}"
        audit.denied(_by(token, address), "use token", group, object=named(token), why=why)


def named(token: AgentToken) -> str:
    return f"{token.group.name}/{token.name}"


def _by(token: AgentToken, address: str) -> By:
    return By(f"token {named(token)}", AuditSource.API, address=address)


def group_exists(name: str) -> bool:
    return Group.objects.filter(name=name).exists()
