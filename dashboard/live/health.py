"""What /readyz asks of Redis, and the signs of life that Celery's processes leave there."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from assignment.servers import OLDEST, shown
from dashboard.live.connection import (
    StoreUnavailable,
    client_at,
    clients,
    ms_of,
    own_key,
    sync_client,
)
from dashboard.live.queue import living_of, tickers_key
from dashboard.live.together import Question, pack, pack_script, way_to

LATE, LATE_SHOWN_MS = "late_groups", 10_000
FAILING = "groups_failing"
TICKED = "groups_ticked"
NO_HISTORY = "groups_without_history"
DIFFERING, DIFFERING_SHOWN_MS = "differing_groups", 86_400_000
NAMED_MAX = 10  # of groups
SIGN_EVERY_S = 0.5
AWAY_S = 5.0  # until a sign is tried again: a Redis that hangs would hold up each task
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
    clients: int = 0  # connections that it has now; of a cluster the node that is fullest
    clients_max: int | None = None  # None: it does not tell
    away: tuple[str, ...] = ()  # nodes of a cluster that do not answer, as host:port

    @property
    def is_almost_full(self) -> bool:
        """Whoever comes when it is full is refused: an agent with locks to renew, say."""
        return self.clients_max is not None and is_almost_full(self.clients, self.clients_max)

    @property
    def is_new_enough(self) -> bool:
        return _version(self.version) >= OLDEST


def is_almost_full(used: int, most: int) -> bool:
    """Of a server's connections."""
    return used >= ALMOST_FULL * most


class Sign(StrEnum):
    """Of life: beat asked for a task, as it does every two seconds; a worker began one;
    somebody ticked: a round over the groups that are its share was done.
    """

    BEAT = "beat"
    WORKER = "worker"
    TICK = "tick"


def sign_key(sign: Sign) -> str:
    """Of the moment when it was given last, ms by the clock of Redis."""
    return own_key(f"{sign}_ms")


def stamp(sign: Sign) -> None:
    key = sign_key(sign)
    client_at(key).set(key, ms_of(*client_at(key).time()))


class WorkerSign:
    """Of life, of this process: whatever task is begun. The one that is asked for most often waits
    behind hundreds of rebalances when many groups change at once, and is not begun at all then.
    """

    def __init__(self) -> None:
        self._given_s = -inf

    def give(self) -> None:
        """A Redis that is away takes no sign, and stops no task that does without it."""
        if monotonic() - self._given_s < SIGN_EVERY_S:
            return
        try:
            stamp(Sign.WORKER)
            self._given_s = monotonic()
        except StoreUnavailable:
            self._given_s = monotonic() + AWAY_S


# In one trip: a round of ticks is as long as all that it makes.
_STAMP = """
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], string.format('%.0f', now_ms))
"""


def stamp_late(groups: int) -> None:
    sync_client().set(own_key(LATE), groups, px=LATE_SHOWN_MS)


def stamp_tick(groups: int) -> None:
    """A round was done; so many groups there are in all."""
    keys = own_key(TICKED), sign_key(Sign.TICK)
    Question(partial(way_to, keys[0]), pack_script(_STAMP, keys, groups), list).answer()


def note_look(group: str, *, is_well: bool) -> None:
    """What came of the last look at it."""
    _note(FAILING, group, is_well)


def note_failing(groups: Collection[str]) -> None:
    """None of them can be looked at."""
    if groups:
        sync_client().sadd(own_key(FAILING), *groups)


def note_history(group: str, *, is_kept: bool) -> None:
    """What came of it the last time."""
    _note(NO_HISTORY, group, is_kept)


def _note(trouble: str, group: str, is_over: bool) -> None:
    change = sync_client().srem if is_over else sync_client().sadd
    change(own_key(trouble), group)


class Troubles(NamedTuple):
    """Groups at which the last look failed, and those whose events could not be stored the last
    time; also such as are gone meanwhile.
    """

    failing: set[str]
    without_history: set[str]


def troubles() -> Question[Troubles]:
    keys = own_key(FAILING), own_key(NO_HISTORY)
    asked = pack(*(("SMEMBERS", key) for key in keys))
    return Question(partial(way_to, keys[0]), asked, lambda found: Troubles(*map(_named, found)))


def forget(groups: Collection[str]) -> None:
    """They are gone."""
    if groups:
        for trouble in (FAILING, NO_HISTORY):
            sync_client().srem(own_key(trouble), *groups)


def _named(names: Iterable[bytes]) -> set[str]:
    return {name.decode() for name in names}


def note_difference(group: str) -> None:
    """The log of its locks did not tell what Redis held."""
    pipe = sync_client().pipeline()
    pipe.sadd(own_key(DIFFERING), group).pexpire(own_key(DIFFERING), DIFFERING_SHOWN_MS)
    pipe.execute()


def look() -> RedisHealth:
    """One trip, with a write: a server that only answers is of no use; of a cluster to the node
    that has what is the dashboard's own, and one to each other. Raises StoreUnavailable.
    """
    here = client_at(own_key(LATE))
    pipe = here.pipeline()
    pipe.set(own_key("readyz"), 1, px=1_000)
    pipe.info("server").info("persistence").info("clients").time()
    pipe.mget([own_key(LATE), own_key(TICKED), *map(sign_key, Sign)])
    pipe.smembers(own_key(DIFFERING)).sunion(own_key(FAILING), own_key(NO_HISTORY))
    pipe.zrange(tickers_key(), 0, -1, withscores=True)
    _, *of_here, now, signs, differing, failing, tickers = pipe.execute()
    now_ms, (late, ticked, *stamps) = ms_of(*now), signs
    others, away = _others(here)
    nodes = [of_here, *others]
    fullest = max((of_clients for *_, of_clients in nodes), key=_fullness)
    return RedisHealth(
        version=min((str(one["redis_version"]) for one, *_ in nodes), key=_version),
        appendonly=all(one.get("aof_enabled") for _, one, _ in nodes),
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
        clients=int(fullest["connected_clients"]),
        clients_max=int(fullest["maxclients"]) if "maxclients" in fullest else None,
        away=away,
    )


def _others(here: Any) -> tuple[list[list[Any]], tuple[str, ...]]:
    """What the other nodes of a cluster say of themselves, and which do not answer."""
    found: list[list[Any]] = []
    away: list[str] = []
    for client in clients():
        if client.url == here.url:
            continue
        try:
            pipe = client.pipeline().info("server").info("persistence").info("clients")
            found.append(pipe.execute())
        except StoreUnavailable:
            away.append(shown(client.url))
    return found, tuple(away)


def _fullness(of_clients: Mapping[str, Any]) -> float:
    return int(of_clients["connected_clients"]) / int(of_clients.get("maxclients", 0) or 1e9)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def _first(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted(_named(names))[:NAMED_MAX])
