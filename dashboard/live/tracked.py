"""A server's word on what changed: it remembers which keys were read over a connection, and says so
once when one of them is written (CLIENT TRACKING of Redis 6, over RESP3).
"""

import logging
import math
import time
from collections.abc import Sequence
from typing import Any

import redis

from dashboard.live.connection import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, reaching_redis

TRACK, STATE = ("CLIENT", "TRACKING", "ON"), ("CLIENT", "TRACKINGINFO")
ASKED_AGAIN_S = 60.0  # whether it tells, of a server that did not

log = logging.getLogger(__name__)


class Tracked:
    """Of the server of `client`. One connection, for one thread: whatever ends it ends what the
    server remembers of it, and each round asks whether it still does.
    """

    def __init__(self, client: Any) -> None:
        self._pool, self._url = client.connection_pool, client.url
        self._connection: Any = None
        self._not_before_s = -math.inf

    def changed(self) -> frozenset[bytes] | None:
        """Keys that were read here and have been written since. None: nobody knows, of any key.
        Raises StoreUnavailable.
        """
        try:
            with reaching_redis(self._url):
                if self._connection is None:
                    self._begin()
                    return None
                self._connection.connect()  # anew where the server is no primary any more
                [state] = self._exchanged([STATE])
                if not _is_on(state):
                    self.close()
                    return None
                return self._told()
        except BaseException:
            self.close()
            raise

    def read(self, packed: bytes, replies: int) -> list[Any]:
        """The answers to commands that read, errors among them. Raises StoreUnavailable."""
        connection = self._connection
        pooled = connection is None
        with reaching_redis(self._url):
            connection = self._pool.get_connection() if pooled else connection
            try:
                connection.send_packed_command([packed], check_health=False)
                found: list[Any] = connection.read_responses(replies)
            except BaseException:  # answers that nobody read must not meet the next command
                connection.disconnect()
                self._connection = None
                raise
            finally:
                if pooled:
                    self._pool.release(connection)
        return found

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
            "socket_timeout": ANSWER_TIMEOUT_S,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
        }
        self._connection = self._pool.connection_class(**kept)
        try:
            self._connection.connect()
            done, state = self._exchanged([TRACK, STATE])
        except redis.ResponseError as error:  # it speaks no RESP3
            done = state = error
        if isinstance(done, Exception) or not _is_on(state):
            self.close()
            self._not_before_s = time.monotonic() + ASKED_AGAIN_S
            log.info("Redis does not tell which keys change: all are read (%s)", done)

    def _exchanged(self, commands: Sequence[tuple[str, ...]]) -> list[Any]:
        packed = b"".join(self._connection.pack_commands(commands))
        self._connection.send_packed_command([packed], check_health=False)
        found: list[Any] = self._connection.read_responses(len(commands))
        return found

    def _told(self) -> frozenset[bytes] | None:
        pushed, self._connection.pushed = self._connection.pushed, []
        told = [keys for kind, keys in pushed if kind == b"invalidate"]
        if any(keys is None for keys in told):  # all were dropped
            return None
        return frozenset(key for keys in told for key in keys)


def _is_on(state: Any) -> bool:
    return isinstance(state, dict) and b"on" in state.get(b"flags", ())
