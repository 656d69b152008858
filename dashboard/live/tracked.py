"""A server's word on what changed: it remembers which keys were read over a connection, and says so
once when one of them is written (CLIENT TRACKING of Redis 6, over RESP3).
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import redis

from assignment.scripts.glance import run_id_of
from dashboard.live.connection import StoreUnavailable
from dashboard.live.together import Packed, Question, Way, pack, way_of

TRACK, STATE = ("CLIENT", "TRACKING", "ON"), ("CLIENT", "TRACKINGINFO")
_STATE_AND_WHO = pack(STATE, ("INFO", "server"), ("INFO", "replication"))
ASKED_AGAIN_S = 30.0  # whether it tells, of a server that did not
TIMEOUT_S = 3.0  # who hangs just here is asked for all
TROUBLE = redis.RedisError, OSError

T = TypeVar("T")
State = Question[list[Any]]

log = logging.getLogger(__name__)


class Tracked:
    """Of the server of `client`. One connection, for one thread: whatever ends it ends what the
    server remembers of it, and each round asks whether it still does. Where there is none, all is
    read over the connections of the pool. Of a slot that goes to another node with its keys a Redis
    Cluster before 7 says nothing.
    """

    def __init__(self, client: Any) -> None:
        self._pool = client.connection_pool
        self._pooled, self._own = way_of(client), Way(self, client.url)
        self._connection: Any = None
        self._not_before_s = -math.inf

    def state(self) -> State | None:
        """Asks for what `changed` goes by. None: there was no connection, and may be one now."""
        if self._connection is None:
            self._begin()
            return None
        return Question(lambda: self._own, _STATE_AND_WHO, list, keeps_errors=True)

    def changed(self, asked: State | None, run_id: str) -> frozenset[bytes] | None:
        """Keys that were read here and had been written when `asked` was answered. None: nobody
        knows, of any key. `run_id`: of whom the pool reached then; one name may lead to another
        server than before.
        """
        if asked is None:
            return None
        try:
            state, *who = asked.answer()
        except StoreUnavailable as error:
            log.info("it is not known what changed: %s", error)
            return None
        if not _is_on(state) or _run_id(who) != run_id:
            self.close()
            return None
        return self._told()

    def reading(self, packed: Packed, read: Callable[[list[Any]], T]) -> Question[T]:
        """By commands that read; `read` is given errors too."""
        return Question(self._way, packed, read, keeps_errors=True)

    def _way(self) -> Way:
        return self._pooled if self._connection is None else self._own

    # as a pool, which has this one; there is none once it has ended, and the other pool's may do

    def get_connection(self) -> Any:
        connection, self._connection = self._connection, None
        connection.connect()  # anew where the server is no primary any more
        return connection

    def release(self, connection: Any) -> None:
        if connection.is_connected:
            self._connection = connection

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
        self._connection.send_packed_command(self._connection.pack_commands(commands))
        found: list[Any] = self._connection.read_responses(len(commands))
        return found

    def _told(self) -> frozenset[bytes] | None:
        pushed, self._connection.pushed = self._connection.pushed, []
        told = [keys for kind, keys in pushed if kind == b"invalidate"]
        if any(keys is None for keys in told):  # all were dropped
            return None
        return frozenset(key for keys in told for key in keys)


def _run_id(who: Sequence[Any]) -> str:
    return run_id_of(b"".join(who)) if all(isinstance(one, bytes) for one in who) else ""


def _is_on(state: Any) -> bool:
    return isinstance(state, dict) and b"on" in state.get(b"flags", ())
