"""Redis' users and scripts, on every primary and every replica: what is there, put and dropped.

A server keeps neither over a restart (users it does with an aclfile) and hands neither to its
replicas. Knows no tokens and no groups.
"""

import hashlib
import hmac
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from assignment import lua
from assignment.errors import Trouble, trouble_of
from assignment.rights import Server, broker_rules, digest_of, user_of
from assignment.servers import shown
from dashboard.live.connection import (
    StoreUnavailable,
    client_at,
    clients,
    ms_of,
    own_key,
    sync_client,
)
from dashboard.live.scripts import script

READ_ONLY_SINCE = 7  # keys that may only be read
AT_ONCE = 500  # users of one trip
# What came of it; the last comparison; the names that we made.
NOTED, COMPARED, USERS = "rights", "rights_compared", "users"
REPLICA_TIMEOUT_S = 1.0  # it is a net: whoever does not answer gets it with a later look

log = logging.getLogger(__name__)


class UsersRefused(Exception):
    """This Redis lets us make no users; the text says how it said so."""


class Ability(StrEnum):
    """What of users this Redis can do for us."""

    ALL = "all"
    SHARED = "shared"  # but no key can be given for reading alone
    NONE = "none"  # agents log in as the dashboard does


ABILITY_TEXTS = {
    Ability.ALL: "",
    Ability.SHARED: "Redis is older than 7: whoever holds an agent's token could trim the stream of"
    " its group, which other groups may read too",
    Ability.NONE: "this Redis lets the dashboard make no users: agents and producers log in as it"
    " does, and whoever has their address may change everything in Redis",
}


@dataclass(frozen=True, slots=True)
class Rights:
    """Of one user: `digest` is the SHA-256 of its password, `rules` as ACL SETUSER takes them."""

    digest: str
    rules: tuple[str, ...]


Users = Mapping[str, Callable[[], Rights]]  # by name


@dataclass(frozen=True, slots=True)
class Found:
    """`run`: of which servers, since which start, with which replicas. `now_ms`: by the latest of
    their clocks.
    """

    run: str
    now_ms: int
    server: Server
    missing: tuple[str, ...]  # scripts that are not loaded on every primary
    replicas: tuple[tuple[str, int], ...]
    refused: str = ""  # how it said that we may load no scripts: no user could run any
    primaries: tuple[Any, ...] = ()  # clients of those that answer: of a cluster several
    away: tuple[str, ...] = ()  # host:port of the others


class Compared(NamedTuple):
    """The last comparison, whichever process made it. `is_whole`: all servers answered. `at_ms` as
    `Found.now_ms`; `anew_ms`: of the last one that made all users as they were wanted, `by`: on
    which run of which servers, and by which rules.
    """

    is_whole: bool
    at_ms: int
    anew_ms: int
    by: str


@dataclass(slots=True)
class Put:
    """What came of it. `unreached`: replicas, and primaries of a cluster, that did not answer, as
    host:port.
    """

    ability: Ability = Ability.ALL
    unreached: list[str] = field(default_factory=list)

    def sentences(self, *, named: bool) -> list[str]:
        """What a person should know; not `named`: without addresses, for strangers."""
        found = [ABILITY_TEXTS[self.ability]] if ABILITY_TEXTS[self.ability] else []
        if self.unreached:
            count = len(self.unreached)
            which = f"the replicas {', '.join(self.unreached)}" if named else f"{count} replicas"
            found.append(
                f"users and scripts were not put on {which}:"
                " after a failover agents wait for the next tick"
            )
        return found


def look() -> Found:
    """One trip to each primary. Raises StoreUnavailable when none answers."""
    found: list[Found] = []
    away: list[str] = []
    why: StoreUnavailable | None = None
    for client in clients():
        try:
            found.append(_look(client))
        except StoreUnavailable as error:
            why, away = error, [*away, shown(client.url)]
    if why is not None and not found:
        raise why
    return Found(
        run=" ".join(one.run for one in found),
        now_ms=max(one.now_ms for one in found),
        server=min((one.server for one in found), key=lambda server: server.reads_only),
        missing=tuple(sorted({name for one in found for name in one.missing})),
        replicas=tuple(sorted({replica for one in found for replica in one.replicas})),
        refused=next((one.refused for one in found if one.refused), ""),
        primaries=tuple(client for one in found for client in one.primaries),
        away=tuple(away),
    )


def _look(client: Any) -> Found:
    names = lua.names()
    pipe = client.pipeline()
    pipe.info("server").info("replication")
    pipe.execute_command("SCRIPT EXISTS", *(script(name).sha for name in names)).time()
    server, replication, there, now = pipe.execute(raise_on_error=False)
    refused = ""
    for answer in (server, replication, now):
        if isinstance(answer, redis.ResponseError):
            raise StoreUnavailable(f"Redis does not say who it is: {answer}") from answer
    if isinstance(there, redis.ResponseError):
        refused, there = str(there), [True] * len(names)
    replicas = _replicas(replication)
    identity = (server["run_id"], replication["master_replid"], *replicas)
    return Found(
        run=" ".join(map(str, identity)),
        now_ms=ms_of(*now),
        server=_server(server),
        missing=tuple(n for n, known in zip(names, there, strict=True) if not known),
        replicas=replicas,
        refused=refused,
        primaries=(client,),
    )


def server() -> Server:
    """Raises StoreUnavailable."""
    return _server(client_at(own_key(USERS)).info("server"))


def load_scripts(found: Found) -> None:
    """Those that are missing on a primary. Raises StoreUnavailable."""
    for client in found.primaries:
        _load(client, found.missing)


def ours() -> set[str]:
    """Names of users that were made here and not dropped. Raises StoreUnavailable."""
    return {_text(name) for name in sync_client().smembers(own_key(USERS))}


def put(found: Found, wanted: Users, dropped: Collection[str] = ()) -> Put:
    """On every node: makes each user be as it is wanted, and ends the connections of those that
    are dropped. Raises StoreUnavailable: the primary has perhaps some of them.
    """
    commands = [_set_user(name, rights()) for name, rights in wanted.items()]
    commands += [("ACL", "DELUSER", name) for name in dropped]

    def work(client: Any) -> None:
        _asked(client, commands)
        _save(client)

    return _put(found, work, wanted, dropped)


def compare(found: Found, wanted: Users, ours: Collection[str], *, anew: bool) -> Put:
    """Each node has the scripts, the users that are wanted and of `ours` no others; `anew`: also
    those that are there are made as they are wanted. Raises StoreUnavailable.
    """
    gone = sorted(set(ours) - wanted.keys())
    sha = {script(name).sha: name for name in lua.names()}

    def work(client: Any) -> None:
        names, *loaded = _asked(client, [("ACL", "USERS"), ("SCRIPT EXISTS", *sha)])
        there = {_text(name) for name in names}
        missing = [name for name in wanted if anew or name not in there]
        commands = [_set_user(name, wanted[name]()) for name in missing]
        commands += [("ACL", "DELUSER", name) for name in gone if name in there]
        _load(client, [n for n, known in zip(sha.values(), loaded[0], strict=True) if not known])
        if commands:
            _asked(client, commands)
            _save(client)

    return _put(found, work, wanted.keys() - set(ours), gone)


def _put(
    found: Found, work: Callable[[Any], None], made: Collection[str], dropped: Collection[str]
) -> Put:
    """What `work` makes is remembered before, what it drops until it is gone from every node."""
    if found.refused:
        return _none(found.refused)
    _remember(made, ())
    try:
        for client in found.primaries:
            work(client)
    except UsersRefused as error:
        return _none(str(error))
    done = Put(Ability.ALL if found.server.reads_only else Ability.SHARED)
    done.unreached = [f"{h}:{p}" for h, p in found.replicas if not _on_replica((h, p), work)]
    done.unreached += found.away
    if not done.unreached:
        _remember((), dropped)
    return done


def _none(why: str) -> Put:
    log.debug("no users are made in Redis: %s", why)
    return Put(Ability.NONE)


def _remember(made: Collection[str], dropped: Collection[str]) -> None:
    if made:
        sync_client().sadd(own_key(USERS), *made)
    if dropped:
        sync_client().srem(own_key(USERS), *dropped)


def broker_login() -> tuple[str, str] | None:
    """User and password of Celery and the channel layer. Made with each of their connections: a
    server that was started anew has forgotten it, and no tick runs without it. None: this Redis
    allows none. Raises redis.ConnectionError.
    """
    name, password = _broker_user()
    try:
        _remember([name], ())
        _asked(sync_client(), [_set_user(name, _broker_rights(server()))])
    except UsersRefused:
        return None
    except StoreUnavailable as error:
        raise redis.ConnectionError(str(error)) from error
    return name, password


def broker_user(on: Server) -> Users:
    """Whom a comparison must leave in place."""
    return {_broker_user()[0]: lambda: _broker_rights(on)}


def _broker_user() -> tuple[str, str]:
    """Name and password."""
    key, text = settings.SECRET_KEY.encode(), f"Redis user of Celery and channels {own_key('')}"
    password = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return user_of(digest_of(password)), password


def _broker_rights(on: Server) -> Rights:
    return Rights(digest_of(_broker_user()[1]), broker_rules(on, settings.REDIS_PREFIX))


def _set_user(name: str, rights: Rights) -> Sequence[str]:
    return ("ACL", "SETUSER", name, "reset", "on", f"#{rights.digest}", *rights.rules)


def compared() -> Compared:
    """Zeros and "" where there was none. Raises StoreUnavailable."""
    is_whole, at_ms, anew_ms, by = sync_client().hmget(own_key(COMPARED), *Compared._fields)
    return Compared(is_whole == b"1", int(at_ms or 0), int(anew_ms or 0), (by or b"").decode())


def note_compared(done: Compared) -> None:
    """Raises StoreUnavailable."""
    values = {**done._asdict(), "is_whole": int(done.is_whole)}
    sync_client().hset(own_key(COMPARED), mapping=values)


def note(done: Put) -> None:
    """For the page Status, and for addresses that commands print. Raises StoreUnavailable."""
    if done != noted():
        for sentence in done.sentences(named=True):
            log.warning("%s", sentence)
    values = {"ability": str(done.ability), "unreached": " ".join(done.unreached)}
    sync_client().hset(own_key(NOTED), mapping=values)


def noted() -> Put | None:
    """None: nobody tried yet. Raises StoreUnavailable."""
    ability, unreached = sync_client().hmget(own_key(NOTED), "ability", "unreached")
    return Put(Ability(_text(ability)), _text(unreached).split()) if ability else None


def _replicas(replication: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    rows = (replication.get(f"slave{n}") for n in range(int(replication["connected_slaves"])))
    return tuple(sorted((str(row["ip"]), int(row["port"])) for row in rows if row))


def _server(info: Mapping[str, Any]) -> Server:
    major = int(str(info["redis_version"]).partition(".")[0])
    path = urlsplit(settings.REDIS_URL).path.strip("/")
    return Server(major >= READ_ONLY_SINCE, int(path) if path.isdecimal() else 0)


def _load(client: Any, names: Iterable[str]) -> None:
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.script_load(script(name).text)
    pipe.execute()


def _asked(client: Any, commands: Sequence[Sequence[str]]) -> list[Any]:
    """Raises UsersRefused at the first that is refused, and StoreUnavailable."""
    answers: list[Any] = []
    for first in range(0, len(commands), AT_ONCE):
        pipe = client.pipeline(transaction=False)
        for command in commands[first : first + AT_ONCE]:
            pipe.execute_command(*command)
        answers += pipe.execute(raise_on_error=False)
        for answer in answers[first:]:
            if isinstance(answer, redis.ResponseError):
                _refused(answer)
    return answers


def _refused(error: redis.ResponseError) -> NoReturn:
    text = str(error)
    if trouble_of(text, error.status_code) is Trouble.ELSEWHERE:
        raise StoreUnavailable(f"Redis takes no user now: {text}") from error
    raise UsersRefused(text) from error


def _save(client: Any) -> None:
    """To its aclfile, where it has one: they are there before the first connection then."""
    try:
        client.execute_command("ACL SAVE")
    except (StoreUnavailable, redis.ResponseError) as error:
        log.debug("users are not kept over a restart of Redis: %s", error)


def _on_replica(replica: tuple[str, int], work: Any) -> bool:
    client = _client_of(*replica)
    try:
        work(client)
    except (redis.RedisError, OSError, UsersRefused, StoreUnavailable) as error:
        log.debug("replica %s:%d has not all users and scripts: %s", *replica, error)
        return False
    finally:
        client.close()
    return True


def _client_of(host: str, port: int) -> Any:
    """As the dashboard logs in to the primary."""
    options = dict(clients()[0].connection_pool.connection_kwargs)
    kept = {name: options[name] for name in ("username", "password") if name in options}
    tls = {k: v for k, v in options.items() if k.startswith("ssl_")}
    if urlsplit(settings.REDIS_URL).scheme.startswith("rediss"):
        tls["ssl"] = True
    return redis.Redis(
        host=host,
        port=port,
        protocol=2,
        socket_timeout=REPLICA_TIMEOUT_S,
        socket_connect_timeout=REPLICA_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        **kept,
        **tls,
    )


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
