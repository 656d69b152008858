"""A server's word on what changed: it remembers which keys were read over a connection, and says so
once when one of them is written (CLIENT TRACKING of Redis 6, over RESP3).
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis

from assignment.scripts.glance import run_id_of
from assignment.servers import shown
from dashboard.live.connection import reaching_redis

TRACK, STATE = ("CLIENT", "TRACKING", "ON"), ("CLIENT", "TRACKINGINFO")
WHO = ("INFO", "server"), ("INFO", "replication")
ASKED_AGAIN_S = 30.0  # whether it tells, of a server that did not
TIMEOUT_S = 3.0  # who hangs just here is asked for all
TROUBLE = redis.RedisError, OSError

log = logging.getLogger(__name__)


class Tracked:
    """Of the server of `client`. One connection, for one thread: whatever ends it ends what the
    server remembers of it, and each round asks whether it still does. Where there is none, all is
    read over the connections of the pool. Of a slot that goes to another node with its keys a Redis
    Cluster before 7 says nothing.
    """

    def __init__(self, client: Any) -> None:
        self._pool, self._url = client.connection_pool, client.url
        self._connection: Any = None
        self._not_before_s = -math.inf

    def changed(self, run_id: Callable[[], str]) -> frozenset[bytes] | None:
        """Keys that were read here and have been written since. None: nobody knows, of any key.
        `run_id`: says, once this is known, whom the pool reaches now; one name may lead to another
        server than before.
        """
        if self._connection is None:
            self._begin()
            return None
        try:
            self._connection.connect()  # anew where the server is no primary any more
            state, *who = self._exchanged([STATE, *WHO])
        except TROUBLE as error:
            log.info("Redis at %s does not say what changed: %s", shown(self._url), error)
            self.close()
            return None
        if not _is_on(state) or _run_id(who) != run_id():
            self.close()
            return None
        return self._told()

    def read(self, packed: bytes, replies: int) -> list[Any]:
        """The answers to commands that read, errors among them. Raises StoreUnavailable."""
        if self._connection is not None:
            try:
                return _read(self._connection, packed, replies)
            except TROUBLE:
                self._connection = None  # the pool's may still do
        with reaching_redis(self._url):
            connection = self._pool.get_connection()
            try:
                return _read(connection, packed, replies)
            finally:
                self._pool.release(connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def _begin(self) -> None:
        if time.monotonic() < self._not_before_s:
            return
        kept = {
            **self._pool.connection_kwargs,
            "protocol": 3,
            "socket_timeout": TIMEOUT_S,
            "socket_connect_timeout": TIMEOUT_S,
        }
        self._connection = self._pool.connection_class(**kept)
        try:
            self._connection.connect()
            done, state = self._exchanged([TRACK, STATE])
        except (*TROUBLE, AttributeError) as error:  # the last where it speaks no RESP3
            self._give_up(error)
        else:
            if isinstance(done, Exception) or not _is_on(state):
                self._give_up(done)

    def _give_up(self, why: object) -> None:
        self.close()
        self._not_before_s = time.monotonic() + ASKED_AGAIN_S
        log.info("Redis does not tell which keys change, so all are read: %s", why)

    def _exchanged(self, commands: Sequence[tuple[str, ...]]) -> list[Any]:
        packed = b"".join(self._connection.pack_commands(commands))
        return _read(self._connection, packed, len(commands))

    def _told(self) -> frozenset[bytes] | None:
        pushed, self._connection.pushed = self._connection.pushed, []
        told = [keys for kind, keys in pushed if kind == b"invalidate"]
        if any(keys is None for keys in told):  # all were dropped
            return None
        return frozenset(key for keys in told for key in keys)


def _read(connection: Any, packed: bytes, replies: int) -> list[Any]:
    try:
        connection.send_packed_command([packed], check_health=False)
        found: list[Any] = connection.read_responses(replies)
    except BaseException:  # answers that nobody read must not meet the next command
        connection.disconnect()
        raise
    return found


def _run_id(who: Sequence[Any]) -> str:
    return run_id_of(b"".join(who)) if all(isinstance(one, bytes) for one in who) else ""


def _is_on(state: Any) -> bool:
    return isinstance(state, dict) and b"on" in state.get(b"flags", ())
