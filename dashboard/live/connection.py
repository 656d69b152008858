"""Connections to Redis: a pool per process for sync code, one per event loop for async code; of a
Redis Cluster one for each node (nodes.py).

The clients are given out untyped: redis-py types its answers for both kinds and every protocol at
once.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
from django.conf import settings
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.exceptions import AskError, MovedError, TryAgainError
from redis.exceptions import NoPermissionError as NoPermissionError  # noqa: PLC0414
from redis.exceptions import RedisError as RedisError  # noqa: PLC0414
from redis.retry import Retry

from assignment.errors import Damaged, Trouble, trouble_of
from assignment.servers import shown
from assignment.slots import Address
from dashboard.live import nodes
from dashboard.live.deadline import OPEN_S, Breaker, is_bounded, left_s
from dashboard.live.nodes import Moved
from dashboard.live.nodes import StoreUnavailable as StoreUnavailable  # noqa: PLC0414
from dashboard.live.primary import ASYNC, NODE_ASYNC, NODE_SYNC, SYNC, connection_class
from dashboard.live.routed import Nodes, Routed

CONNECT_TIMEOUT_S = 2
ANSWER_TIMEOUT_S = 10  # a group of 100,000 partitions is read in about a second
CONNECTIONS_MAX = 64


class GroupDamaged(StoreUnavailable, Damaged):
    """Redis answers, and what it holds of the group cannot be read."""

    def __init__(self, group: str, why: Exception) -> None:
        said = why if isinstance(why, Damaged) else f"the group's records are damaged: {why}"
        super().__init__(f"{said}; run manage.py repair {group}")


@contextmanager
def reaching_redis(url: str = "") -> Iterator[None]:
    """`url`: of the server that is asked, where that is not the only one."""
    url = url or settings.REDIS_URL
    # In a cluster who asks many groups waits for one hung node once, not for each of its groups.
    breaker = _breaker(url) if is_bounded() or nodes.cluster() else Breaker()
    if not breaker.lets_pass():
        why = f"does not answer in time and is asked again within {OPEN_S:.0f} s"
        raise StoreUnavailable(f"Redis at {shown(url)} {why}")
    try:
        yield
        breaker.close()
    except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
        if isinstance(error, redis.TimeoutError | TimeoutError):
            breaker.open()
        _forget_nodes()
        raise StoreUnavailable(f"Redis at {shown(url)} does not answer: {error}") from error
    except MovedError as error:
        _forget_nodes(Address(error.host, error.port))
        raise Moved(f"Redis at {shown(url)} has it no more: {error}") from error
    except (AskError, TryAgainError) as error:
        why = f"moves the slot key by key, what lies there waits: {error}"
        raise StoreUnavailable(f"Redis at {shown(url)} {why}") from error
    except redis.ResponseError as error:
        if trouble_of(str(error), error.status_code) is Trouble.BUG:
            raise
        raise StoreUnavailable(f"Redis at {shown(url)} refuses: {error}") from error


def _forget_nodes(first: Address | None = None) -> None:
    if known := nodes.cluster():
        known.forget(first if first and first.host else None)


def shown_address() -> str:
    """Without the password."""
    return shown(settings.REDIS_URL)


@cache
def _breaker(url: str) -> Breaker:
    return Breaker()


class _Pool(redis.ConnectionPool):
    """Its connections wait no longer than the request that uses them may."""

    def make_connection(self) -> Any:
        connection: Any = super().make_connection()
        connection.socket_connect_timeout = left_s(CONNECT_TIMEOUT_S)
        connection.socket_timeout = left_s(ANSWER_TIMEOUT_S)
        return connection

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        connection: Any = super().get_connection(*arguments, **options)
        connection.socket_timeout = left_s(ANSWER_TIMEOUT_S)
        connection.update_current_socket_timeout(connection.socket_timeout)
        return connection


# An option of a command: its answer stays as it came. To make a dict of each of many entries costs
# more than to read them. Not in a transaction.
UNPARSED = {"unparsed": True}


class _AsItCame(redis.Redis):
    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        if UNPARSED.keys() <= options.keys():
            return connection.read_response()
        return super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]


class _Pipeline(_AsItCame, Pipeline):
    url = ""

    def execute(self, *arguments: Any, **options: Any) -> Any:
        with reaching_redis(self.url):
            return super().execute(*arguments, **options)


class _Client(_AsItCame):
    url = ""

    def execute_command(self, *arguments: Any, **options: Any) -> Any:
        with reaching_redis(self.url):
            return super().execute_command(*arguments, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: Any = False, shard_hint: Any = None) -> _Pipeline:
        made = _Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        made.url = self.url
        return made


def _sync_client(url: str) -> _Client:
    """Of a server that has keys of groups."""
    return _client(url, is_node=nodes.cluster() is not None)


@cache
def _client(url: str, *, is_node: bool) -> _Client:
    pool = _Pool.from_url(
        url,
        connection_class=connection_class(url, NODE_SYNC if is_node else SYNC),
        protocol=2,
        max_connections=CONNECTIONS_MAX,
        # Once: a connection that died while idle. Whoever hangs is not asked twice.
        retry=Retry(NoBackoff(), 1, (redis.ConnectionError,)),
    )
    made = _Client(connection_pool=pool)
    made.url = url
    return made


def sync_client(url: str = "") -> Any:
    """Whatever is asked of it raises StoreUnavailable when Redis cannot be asked. Of a cluster it
    asks the node that has the key; what names no key is asked of a node, see `client_at`. `url`: of
    another server than the groups'.
    """
    if url:
        return _client(url, is_node=False)
    return _routed() if nodes.cluster() else _sync_client(settings.REDIS_URL)


@cache
def _routed() -> Routed:
    return Routed(Nodes(client_at, clients, reaching_redis))


def client_at(key: str | bytes) -> Any:
    """Of the server that has it now. Raises StoreUnavailable."""
    with reaching_redis():
        return _sync_client(nodes.node_of(key))


def clients() -> list[Any]:
    """Of all that have keys. Raises StoreUnavailable."""
    with reaching_redis():
        return [_sync_client(url) for url in nodes.primaries()]


def own_key(name: str) -> str:
    """A key of the dashboard itself. No group's: its members may not write there; no stream has it,
    whatever its name. In a cluster all are in one slot.
    """
    prefix = settings.REDIS_PREFIX
    return f"{{{prefix}}}:{name}" if nodes.cluster() else f"{prefix}:{name}"


def client_of(url: str) -> Any:
    """Of that very server, primary or replica, whatever the settings say."""
    return redis.Redis.from_url(
        url, protocol=2, socket_timeout=ANSWER_TIMEOUT_S, socket_connect_timeout=CONNECT_TIMEOUT_S
    )


def keep_within(name: str, most_ms: int) -> None:
    """Redis keeps the moment when a key expires: far too late once its clock was set back."""
    if sync_client().pttl(name) > most_ms:
        sync_client().pexpire(name, most_ms)


def ms_of(seconds: int, microseconds: int) -> int:
    """Of what Redis answers to TIME."""
    return seconds * 1000 + microseconds // 1000


_async_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Any]] = WeakKeyDictionary()
_making = threading.Lock()


async def node_of(key: str) -> str:
    """The address of whoever has it now. Raises redis.ConnectionError."""
    known = nodes.cluster()
    if known is None:
        return str(settings.REDIS_URL)
    if known.is_due:
        await asyncio.to_thread(known.ask)
    return known.of(key)


def async_client(url: str = "") -> Any:
    """The running loop's client; connections never cross loops. `url`: see `reaching_redis`."""
    loop, url = asyncio.get_running_loop(), url or settings.REDIS_URL
    with _making:
        made = _async_clients.setdefault(loop, {})
        if url not in made:
            kinds = NODE_ASYNC if nodes.cluster() else ASYNC
            made[url] = redis.asyncio.Redis.from_url(
                url,
                connection_class=connection_class(url, kinds),
                protocol=2,
                socket_connect_timeout=CONNECT_TIMEOUT_S,
                socket_timeout=ANSWER_TIMEOUT_S,
                max_connections=CONNECTIONS_MAX,
                retry=AsyncRetry(NoBackoff(), 1),
            )
        return made[url]


async def close_async_client() -> None:
    """Before a loop ends, so that nothing complains about open connections."""
    with _making:
        made = _async_clients.pop(asyncio.get_running_loop(), {})
    for client in made.values():
        await client.aclose()
