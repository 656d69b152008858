"""Which server has a key: of a Redis Cluster the primary of its slot, else the one Redis there is.

Each node has an address of its own, and by it the clients and the breaker that one Redis has. Who
has which slot is asked anew after an error that says it may be another by now. Sends no commands
but that one.
"""

import threading
import time
from collections.abc import Iterator
from functools import cache, lru_cache
from math import inf

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from assignment.errors import EvenkeelError
from assignment.servers import is_cluster, node_url, nodes_of, shown
from assignment.slots import Address, Topology, slot_of
from dashboard.live.deadline import left_s

ASK_EVERY_S = 0.2  # while a node is away each call would ask
ASK_TIMEOUT_S = 1.0  # of one node: others know it too
NODES_MAX = 1_000  # of which the address is kept: as many as a cluster should have

_node_url = lru_cache(NODES_MAX)(node_url)


class StoreUnavailable(EvenkeelError):
    """Redis cannot be asked now: stay as you are and try again."""


class Moved(StoreUnavailable):
    """The slot has another node, which is found from now on: nothing was done, and may be there."""


class Nodes:
    """Of one cluster, as this process knows them."""

    def __init__(self, url: str) -> None:
        self._url, self._asking = url, threading.Lock()
        self._topology: Topology | None = None
        self._asked_s = -inf  # monotonic
        self._is_stale = True
        self._first: tuple[Address, ...] = ()

    def forget(self, first: Address | None = None) -> None:
        """Before the next use they are asked again; `first`: the one that knows better."""
        self._first = (first,) if first else ()
        self._is_stale = True

    @property
    def is_due(self) -> bool:
        is_early = time.monotonic() < self._asked_s + ASK_EVERY_S and not self._first
        return self._topology is None or (self._is_stale and not is_early)

    def ask(self) -> None:
        """When that is due. Raises redis.ConnectionError while none was ever reached; else what was
        known stands until one answers.
        """
        with self._asking:
            if not self.is_due:
                return
            why: Exception | None = None
            for place in dict.fromkeys(self._known()):
                try:
                    self._topology = self._asked(place)
                    self._is_stale = False
                    break
                except (redis.RedisError, OSError) as error:
                    why = error
            self._asked_s, self._first = time.monotonic(), ()
        if self._topology is None:
            raise redis.ConnectionError(f"no node of {shown(self._url)} tells who has what: {why}")

    def _known(self) -> Iterator[Address]:
        yield from self._first
        if self._topology is not None:
            yield from self._topology.primaries
            yield from self._topology.replicas
        yield from nodes_of(self._url)

    def _asked(self, place: Address) -> Topology:
        timeout_s = left_s(ASK_TIMEOUT_S)
        client = redis.Redis.from_url(
            _node_url(self._url, place),
            protocol=2,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        with client:
            return Topology.of(client.execute_command("CLUSTER SLOTS"), place)  # type: ignore[no-untyped-call]

    def of(self, key: str | bytes) -> str:
        """The address of the primary, as it is known. Raises redis.ConnectionError."""
        try:
            return _node_url(self._url, self._found.primary(slot_of(key)))
        except KeyError as error:
            raise redis.ConnectionError(f"no node has the slot of {key!r}") from error

    @property
    def primaries(self) -> list[str]:
        return [_node_url(self._url, place) for place in self._found.primaries]

    @property
    def _found(self) -> Topology:
        if self._topology is None:
            raise redis.ConnectionError(f"who has what in {shown(self._url)} is not known yet")
        return self._topology


@cache
def _of_url(url: str) -> Nodes | None:
    return Nodes(url) if is_cluster(url) else None


def cluster() -> Nodes | None:
    """None: it is one Redis."""
    return _of_url(settings.REDIS_URL)


def node_of(key: str | bytes) -> str:
    """The address of whoever has it. Raises redis.ConnectionError."""
    nodes = cluster()
    if nodes is None:
        return str(settings.REDIS_URL)
    if nodes.is_due:
        nodes.ask()
    return nodes.of(key)


def primaries() -> list[str]:
    """Addresses of all that have slots. Raises redis.ConnectionError."""
    nodes = cluster()
    if nodes is None:
        return [str(settings.REDIS_URL)]
    if nodes.is_due:
        nodes.ask()
    return nodes.primaries
