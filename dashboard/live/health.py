"""What /readyz asks of Redis, and the signs of life that Celery's processes leave there."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from django.conf import settings

from assignment.servers import OLDEST
from dashboard.live.connection import ms_of, sync_client
from dashboard.live.queue import living_of, tickers_key

LATE, LATE_SHOWN_MS = "late_groups", 10_000
FAILING = "groups_failing"
TICKED = "groups_ticked"
NO_HISTORY = "groups_without_history"
DIFFERING, DIFFERING_SHOWN_MS = "differing_groups", 86_400_000
NAMED_MAX = 10  # of groups
ALMOST_FULL = 0.8  # of its connections: time is left to raise the limit


@dataclass(frozen=True, slots=True)
class RedisHealth:
    version: str
    appendonly: bool
    ages_ms: dict[str, int | None]  # of each sign of life; None: never given
    late_groups: int  # that wait for a ticker whose round takes too long; 0: all are in time
    failing_groups: int = 0  # at which the last look failed, or whose history is not kept
    failing_named: tuple[str, ...] = ()  # the first of them
    ticked_groups: int = 0  # of all tickers, failing ones included
    tickers: int = 0  # that live: a worker has one beside it
    differing_groups: int = 0  # whose log of the locks did not tell what Redis held, in a day
    differing_named: tuple[str, ...] = ()  # the first of them
    clients: int = 0  # connections that it has now
    clients_max: int | None = None  # None: it does not tell

    @property
    def is_almost_full(self) -> bool:
        """Whoever comes when it is full is refused: an agent with locks to renew, say."""
        return self.clients_max is not None and self.clients >= ALMOST_FULL * self.clients_max

    @property
    def is_new_enough(self) -> bool:
        return tuple(int(part) for part in self.version.split(".")[:2]) >= OLDEST


class Sign(StrEnum):
    """Of life: beat asked for a task; a worker began one that is asked for each second; somebody
    ticked: a round over the groups that are its share was done.
    """

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


def stamp_tick(groups: int) -> None:
    """A round was done; so many groups there are in all."""
    sync_client().set(_key(TICKED), groups)
    stamp(Sign.TICK)


def note_look(group: str, *, is_well: bool) -> None:
    """What came of the last look at it."""
    _note(FAILING, group, is_well)


def note_history(group: str, *, is_kept: bool) -> None:
    """What came of it the last time."""
    _note(NO_HISTORY, group, is_kept)


def _note(trouble: str, group: str, is_over: bool) -> None:
    change = sync_client().srem if is_over else sync_client().sadd
    change(_key(trouble), group)


def failing() -> set[str]:
    """Groups at which the last look failed; also such as are gone meanwhile."""
    return _named(sync_client().smembers(_key(FAILING)))


def without_history() -> set[str]:
    """Groups whose events could not be stored the last time; also such as are gone meanwhile."""
    return _named(sync_client().smembers(_key(NO_HISTORY)))


def forget(groups: Collection[str]) -> None:
    """They are gone."""
    if groups:
        for trouble in (FAILING, NO_HISTORY):
            sync_client().srem(_key(trouble), *groups)


def _named(names: Iterable[bytes]) -> set[str]:
    return {name.decode() for name in names}


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
    pipe.mget([_key(LATE), _key(TICKED), *map(sign_key, Sign)])
    pipe.smembers(_key(DIFFERING)).sunion(_key(FAILING), _key(NO_HISTORY))
    pipe.zrange(tickers_key(), 0, -1, withscores=True)
    _, server, persistence, clients, now, signs, differing, failing, tickers = pipe.execute()
    now_ms, (late, ticked, *stamps) = ms_of(*now), signs
    return RedisHealth(
        version=str(server["redis_version"]),
        appendonly=bool(persistence.get("aof_enabled")),
        ages_ms={
            str(sign): now_ms - int(at_ms) if at_ms else None
            for sign, at_ms in zip(Sign, stamps, strict=True)
        },
        late_groups=int(late or 0),
        failing_groups=len(failing),
        failing_named=_first(failing),
        ticked_groups=int(ticked or 0),
        tickers=len(living_of(now_ms, tickers)),
        differing_groups=len(differing),
        differing_named=_first(differing),
        clients=int(clients["connected_clients"]),
        clients_max=int(clients["maxclients"]) if "maxclients" in clients else None,
    )


def _first(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted(_named(names))[:NAMED_MAX])
