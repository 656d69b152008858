"""Connections to Redis: a pool per process for sync code, one per event loop for async code.

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
from redis.exceptions import NoPermissionError as NoPermissionError  # noqa: PLC0414
from redis.exceptions import RedisError as RedisError  # noqa: PLC0414
from redis.retry import Retry

from assignment.errors import Damaged, EvenkeelError, Trouble, trouble_of
from assignment.servers import shown
from dashboard.live.deadline import OPEN_S, Breaker, is_bounded, left_s
from dashboard.live.primary import ASYNC, SYNC, connection_class

CONNECT_TIMEOUT_S = 2
ANSWER_TIMEOUT_S = 10  # a group of 100,000 partitions is read in about a second
CONNECTIONS_MAX = 64


class StoreUnavailable(EvenkeelError):
    """Redis cannot be asked now: stay as you are and try again."""


class GroupDamaged(StoreUnavailable, Damaged):
    """Redis answers, and what it holds of the group cannot be read."""

    def __init__(self, group: str, why: Exception) -> None:
        said = why if isinstance(why, Damaged) else f"the group's records are damaged: {why}"
        super().__init__(f"{said}; run manage.py repair {group}")


@contextmanager
def reaching_redis() -> Iterator[None]:
    breaker = _breaker(settings.REDIS_URL) if is_bounded() else Breaker()
    if not breaker.lets_pass():
        why = f"does not answer in time and is asked again within {OPEN_S:.0f} s"
        raise StoreUnavailable(f"Redis at {shown_address()} {why}")
    try:
        yield
        breaker.close()
    except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
        if isinstance(error, redis.TimeoutError | TimeoutError):
            breaker.open()
        raise StoreUnavailable(f"Redis at {shown_address()} does not answer: {error}") from error
    except redis.ResponseError as error:
        if trouble_of(str(error), error.status_code) is Trouble.BUG:
            raise
        raise StoreUnavailable(f"Redis at {shown_address()} refuses: {error}") from error


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


class _Pipeline(Pipeline):
    def execute(self, *arguments: Any, **options: Any) -> Any:
        with reaching_redis():
            return super().execute(*arguments, **options)


class _Client(redis.Redis):
    def execute_command(self, *arguments: Any, **options: Any) -> Any:
        with reaching_redis():
            return super().execute_command(*arguments, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: Any = False, shard_hint: Any = None) -> _Pipeline:
        return _Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


@cache
def _sync_client(url: str) -> _Client:
    pool = _Pool.from_url(
        url,
        connection_class=connection_class(url, SYNC),
        protocol=2,
        max_connections=CONNECTIONS_MAX,
        # Once: a connection that died while idle. Whoever hangs is not asked twice.
        retry=Retry(NoBackoff(), 1, (redis.ConnectionError,)),
    )
    return _Client(connection_pool=pool)


def sync_client(url: str = "") -> Any:
    """Whatever is asked of it raises StoreUnavailable when Redis cannot be asked. `url`: of another
    server than the groups'.
    """
    return _sync_client(url or settings.REDIS_URL)


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


_async_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[str, Any]] = WeakKeyDictionary()
_making = threading.Lock()


def async_client() -> Any:
    """The running loop's client; connections never cross loops."""
    loop = asyncio.get_running_loop()
    with _making:
        url, client = _async_clients.get(loop, ("", None))
        if client is None or url != settings.REDIS_URL:
            client = redis.asyncio.Redis.from_url(
                settings.REDIS_URL,
                connection_class=connection_class(settings.REDIS_URL, ASYNC),
                protocol=2,
                socket_connect_timeout=CONNECT_TIMEOUT_S,
                socket_timeout=ANSWER_TIMEOUT_S,
                max_connections=CONNECTIONS_MAX,
                retry=AsyncRetry(NoBackoff(), 1),
            )
            _async_clients[loop] = (settings.REDIS_URL, client)
        return client


async def close_async_client() -> None:
    """Before a loop ends, so that nothing complains about open connections."""
    with _making:
        _, client = _async_clients.pop(asyncio.get_running_loop(), ("", None))
    if client is not None:
        await client.aclose()
