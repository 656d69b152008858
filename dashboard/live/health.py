"""What /readyz asks of Redis, and the signs of life that Celery's processes leave there."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from django.conf import settings

from assignment.servers import OLDEST
from dashboard.live.connection import ms_of, sync_client

LATE, LATE_SHOWN_MS = "late_groups", 10_000
FAILING = "failing_groups"
NO_HISTORY = "groups_without_history"
DIFFERING, DIFFERING_SHOWN_MS = "differing_groups", 86_400_000
NAMED_MAX = 10  # of groups
ALMOST_FULL = 0.8  # of its connections: time is left to raise the limit


@dataclass(frozen=True, slots=True)
class RedisHealth:
    version: str
    appendonly: bool
    ages_ms: dict[str, int | None]  # of each sign of life; None: never given
    late_groups: int  # that wait for a tick which takes too long; 0: it is in time
    failing_groups: int = 0  # whose last tick failed, or whose history is not kept
    failing_named: tuple[str, ...] = ()  # the first of them
    ticked_groups: int = 0  # by the last tick, failing ones included
    differing_groups: int = 0  # whose log of the locks did not tell what Redis held, in a day
    differing_named: tuple[str, ...] = ()  # the first of them
    clients: int = 0  # connections that it has now
    clients_max: int | None = None  # None: it does not tell

    @property
    def is_almost_full(self) -> bool:
        """Whoever comes when it is full is refused: an agent with locks to renew, say."""
        return self.clients_max is not None and is_almost_full(self.clients, self.clients_max)

    @property
    def is_new_enough(self) -> bool:
        return tuple(int(part) for part in self.version.split(".")[:2]) >= OLDEST


def is_almost_full(used: int, most: int) -> bool:
    """Of a server's connections."""
    return used >= ALMOST_FULL * most


class Sign(StrEnum):
    """Of life: beat asked for a tick; a worker began one; it was done."""

    BEAT = "beat"
    WORKER = "worker"
    TICK = "tick"


def _key(name: str) -> str:
    return f"{settings.REDIS_PREFIX}:{name}"


def sign_key(sign: Sign) -> str:
    """Of the moment when it was given last, ms by the clock of Redis."""
    return _key(f"{sign}_ms")


def stamp(sign: Sign) -> None:
    sync_client().set(sign_key(sign), ms_of(*sync_client().time()))


def stamp_late(groups: int) -> None:
    sync_client().set(_key(LATE), groups, px=LATE_SHOWN_MS)


def stamp_failing(names: Collection[str], ticked: int) -> None:
    """Of the tick that ends."""
    told = {"failing": len(names), "named": sorted(names)[:NAMED_MAX], "ticked": ticked}
    sync_client().set(_key(FAILING), json.dumps(told))


def note_history(group: str, *, is_kept: bool) -> None:
    """What came of it the last time."""
    change = sync_client().srem if is_kept else sync_client().sadd
    change(_key(NO_HISTORY), group)


def without_history() -> set[str]:
    """Groups whose events could not be stored the last time; also such as are gone meanwhile."""
    return {name.decode() for name in sync_client().smembers(_key(NO_HISTORY))}


def note_difference(group: str) -> None:
    """The log of its locks did not tell what Redis held."""
    pipe = sync_client().pipeline()
    pipe.sadd(_key(DIFFERING), group).pexpire(_key(DIFFERING), DIFFERING_SHOWN_MS)
    pipe.execute()


def look() -> RedisHealth:
    """One trip, with a write: a server that only answers is of no use. Raises StoreUnavailable."""
    pipe = sync_client().pipeline()
    pipe.set(_key("readyz"), 1, px=1_000)
    pipe.info("server").info("persistence").info("clients").time()
    pipe.mget([_key(LATE), _key(FAILING), *map(sign_key, Sign)])
    pipe.smembers(_key(DIFFERING))
    _, server, persistence, clients, now, (late, failing, *stamps), differing = pipe.execute()
    now_ms = ms_of(*now)
    told = json.loads(failing or b"{}")
    return RedisHealth(
        version=str(server["redis_version"]),
        appendonly=bool(persistence.get("aof_enabled")),
        ages_ms={
            str(sign): now_ms - int(at_ms) if at_ms else None
            for sign, at_ms in zip(Sign, stamps, strict=True)
        },
        late_groups=int(late or 0),
        failing_groups=told.get("failing", 0),
        failing_named=tuple(told.get("named", ())),
        ticked_groups=told.get("ticked", 0),
        differing_groups=len(differing),
        differing_named=tuple(sorted(name.decode() for name in differing)[:NAMED_MAX]),
        clients=int(clients["connected_clients"]),
        clients_max=int(clients["maxclients"]) if "maxclients" in clients else None,
    )
