"""Agents' tokens: 256 random bits, stored as SHA-256, shown once.

The process remembers what the database said for a few seconds, so that a heartbeat costs no SQL;
for longer while the database is asked again or is away, so that agents can go on and join. What was
revoked meanwhile is asked for by one request for all, LOOK_EVERY_S apart, before it is answered.
"""

import hmac
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from django.utils import timezone

from dashboard.agents.issued import digest_of as digest_of  # noqa: PLC0414
from dashboard.agents.issued import is_used_anew, state_at
from dashboard.agents.issued import make as make  # noqa: PLC0414
from dashboard.models import AgentToken, AuditSource, Group
from dashboard.records import audit
from dashboard.records.audit import By

REMEMBERED_S = 3.0
# A valid one serves for so long while it is read again: members that beat every few seconds never
# wait for a database that is slow. One that was deleted is refused by the reading, some ms later.
SERVED_S = 10.0
LOOK_EVERY_S = 0.7  # a revoked token is refused within a second
LOOK_BACK_S = 60.0  # so far may the clocks of two web processes' machines be apart
LOOK_WAIT_S = 0.25  # for a database that is slow; then what is remembered counts
OUTAGE_S = 3_600.0  # what it said so long ago counts no more, even while it is away
FIELDS = (
    *("id", "digest", "revoked_at", "expires_at", "last_used_at"),
    *("group__name", "group__stream", "group__partitions"),
)
REMEMBERED_MAX = 20_000  # of known and of refused tokens together; the oldest go


@dataclass(frozen=True)
class Known:
    digest: str
    token_id: int  # 0 when the database has no such valid token
    group: str
    expires_at: datetime | None
    read_at: float  # monotonic seconds
    stream: str = ""  # of the group
    partitions: int = 0

    @cached_property
    def sender(self) -> str:
        """Under which its requests are counted."""
        return f"token {self.token_id}"

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
        """One that counts now, perhaps while it is read again."""
        known, now_s = self._known.get(digest), time.monotonic()
        if known is None:
            return None
        most_s = SERVED_S if known.token_id else REMEMBERED_S
        if now_s < self._away_until:
            most_s = OUTAGE_S
        return None if now_s - known.read_at > most_s else known

    def is_due(self, known: Known) -> bool:
        """To be read again."""
        now_s = time.monotonic()
        return now_s - known.read_at > REMEMBERED_S and now_s >= self._away_until

    def database_is_away(self) -> None:
        self._away_until = time.monotonic() + REMEMBERED_S

    def forget(self, digest: str) -> None:
        """When it was valid; a refusal stays remembered."""
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


class Read(NamedTuple):
    """`used`: ids whose last use is to be kept. `ended`: addresses by ids that are not valid any
    more, which is to be on record.
    """

    known: list[Known]
    used: list[int]
    ended: dict[int, str]


def read(asked: Mapping[str, str]) -> Read:
    """Of these digests, each with the address that it came from. Raises DatabaseError."""
    now, known, used, ended = timezone.now(), [], [], {}
    rows = AgentToken.objects.filter(digest__in=list(asked)).order_by()
    # Of each token every REMEMBERED_S: objects for them would cost as much as the query.
    for token_id, digest, revoked_at, until, used_at, group, *of_group in rows.values_list(*FIELDS):
        if state_at(now, revoked_at, until) != "valid":
            ended[token_id] = asked[digest]
            continue
        known.append(Known(digest, token_id, group, until, time.monotonic(), *of_group))
        if is_used_anew(used_at, now):
            used.append(token_id)
    refused = asked.keys() - {one.digest for one in known}
    known += (Known(digest, 0, "", None, time.monotonic()) for digest in refused)
    return Read(known, used, ended)


def note(used: Collection[int], ended: Mapping[int, str]) -> None:
    """As `read` found them. Raises DatabaseError."""
    if used:
        AgentToken.objects.filter(id__in=list(used)).update(last_used_at=timezone.now())
    for token in AgentToken.objects.select_related("group").filter(id__in=list(ended)):
        by, why = _by(token, ended[token.id]), f"the token is {token.state}"
        audit.denied(by, "use token", token.group, object=named(token), why=why)


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
