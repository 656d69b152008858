"""A real Redis Cluster for tests and checks: primaries with replicas, child processes on loopback.

Set up and struck by what any client may send: the wheel has no command line tool.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assignment.slots import SLOTS, Address, Topology, slot_of
from dashboard.demo.embedded_redis import EmbeddedRedis, free_port, wheel_binary
from dashboard.demo.tree import TreeFailed
from dashboard.live.connection import StoreUnavailable, client_of, reaching_redis

HOST = "127.0.0.1"
NODE_TIMEOUT_MS = (
    2_000  # after which a silent primary is replaced; less is missed on a busy machine
)
ENDLESS_MS = 600_000
SET_UP_S = 60.0  # of a busy machine; an idle one needs two
POLL_S = 0.02
MEMORY_MAX = "256mb"  # of each node
KEYS_AT_ONCE = 100  # of a classic move
MOVE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Node:
    server: EmbeddedRedis
    client: Any
    id: str

    @property
    def address(self) -> Address:
        return Address(HOST, self.server.port or 0)

    def ask(self, *command: str | int) -> Any:
        return self.client.execute_command(*command)

    @property
    def is_alive(self) -> bool:
        return self.server.pid is not None

    def signal(self, number: int) -> None:
        if self.server.process is not None:
            self.server.process.send_signal(number)

    def topology(self) -> Topology:
        return Topology.of(self.ask("CLUSTER", "SLOTS"), self.address)


class Cluster:
    """`nodes`: the first ones are set up as primaries, each other one as the replica of one."""

    def __init__(self, folder: Path, primaries: int = 3, replicas: int = 1) -> None:
        """`replicas`: of each primary."""
        self._primaries = primaries
        first, *others = [
            EmbeddedRedis(folder / str(number), binary=wheel_binary())
            for number in range(primaries * (1 + replicas))
        ]
        for server in others:
            server.password = first.password
        self._servers = (first, *others)
        self.nodes: tuple[Node, ...] = ()
        self._still: list[Node] = []

    @property
    def url(self) -> str:
        """Any of them tells where the others are."""
        at = ",".join(f"{node.address.host}:{node.address.port}" for node in self.nodes)
        return f"redis+cluster://:{self._servers[0].password}@{at}"

    # --- its life ---------------------------------------------------------------------------------

    def start(self) -> str:
        """Its URL, once every slot is served and every replica has its primary's data. Raises
        RedisNotStarted and TreeFailed.
        """
        for server in self._servers:
            server.more = _settings(server.password)
            server.start()
        self.nodes = tuple(_node(server) for server in self._servers)
        self._acquaint()
        self._share_out()
        self.wait_until_whole()
        return self.url

    def _acquaint(self) -> None:
        first = self.nodes[0]
        for number, node in enumerate(self.nodes, 1):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number)
            bus = node.ask("CONFIG", "GET", "cluster-port")[1].decode()
            if node is not first:
                first.ask("CLUSTER", "MEET", HOST, node.address.port, int(bus))
        until(lambda: all(len(_known(n)) == len(self.nodes) for n in self.nodes), "they met")

    def _share_out(self) -> None:
        primaries = self.nodes[: self._primaries]
        ends = [SLOTS * n // self._primaries for n in range(self._primaries + 1)]
        for node, first, end in zip(primaries, ends, ends[1:], strict=False):
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for number, node in enumerate(self.nodes[self._primaries :]):
            node.ask("CLUSTER", "REPLICATE", primaries[number % self._primaries].id)

    def wait_until_whole(self) -> None:
        """Every node sees the same primary of each slot, and every replica has its data."""

        def is_whole() -> bool:
            same = {node.topology().by_slot for node in self.living}
            return len(same) == 1 and all(map(_is_whole, self.living))

        until(is_whole, "the cluster is whole")

    def stop(self) -> None:
        """Each by its own process; what they hold is thrown away with their folder."""
        for node in self.nodes:
            node.client.close()
        for server in self._servers:
            server.kill()

    # --- who has what -----------------------------------------------------------------------------

    @property
    def living(self) -> list[Node]:
        return [node for node in self.nodes if node.is_alive]

    @property
    def primaries(self) -> list[Node]:
        """Those that have slots."""
        return [node for node in self.living if node.address in node.topology().primaries]

    def primary_of(self, key: str) -> Node:
        """As all living nodes say; waits until they agree."""
        found: set[Address | None] = set()

        def agree() -> bool:
            found.clear()
            found.update(node.topology().by_slot[slot_of(key)] for node in self.living)
            return len(found) == 1 and any(node.address in found for node in self.living)

        until(agree, f"one primary of {key}")
        return next(node for node in self.living if node.address in found)

    # --- what strikes it --------------------------------------------------------------------------

    def fail_over(self, key: str) -> Node:
        """Its primary dies, and a replica is elected, which is refused to whoever has not heard of
        a slot that was moved; who died.
        """
        self.wait_until_whole()
        dead = self.primary_of(key)
        dead.server.kill()
        self.await_another(key, dead)
        return dead

    def await_another(self, key: str, than: Node) -> Node:
        """All that live say who is the key's primary now."""
        until(lambda: self.primary_of(key) is not than, "another primary was elected")
        until(lambda: all(b"cluster_state:ok" in _info(n) for n in self.living), "state ok")
        return self.primary_of(key)

    def revive(self, node: Node) -> None:
        """It comes back as what its folder and the others say that it is."""
        node.server.start()
        self.wait_until_whole()

    @contextmanager
    def without_replicas(self, key: str) -> Iterator[None]:
        """Those of its primary stand still: what is written meanwhile is there alone. They are not
        found to have failed, unless `find_failed` is called.
        """
        self._time_nodes_out(ENDLESS_MS)
        port = self.primary_of(key).address.port
        still = [n for n in self.living if n.client.info("replication").get("master_port") == port]
        self._still = still
        try:
            for node in still:
                node.signal(signal.SIGSTOP)
            yield
        finally:
            for node in still:
                node.signal(signal.SIGCONT)
            self._still = []
            self.find_failed()
            self.wait_until_whole()

    def find_failed(self) -> None:
        """Whoever is silent is found to have failed."""
        self._time_nodes_out(NODE_TIMEOUT_MS)

    def _time_nodes_out(self, after_ms: int) -> None:
        for node in self.living:
            if node not in self._still:
                node.ask("CONFIG", "SET", "cluster-node-timeout", after_ms)

    def move_slot(self, key: str, to: Node | None = None) -> Node:
        """At once, as Valkey 9 does it; to whom."""
        slot, source = slot_of(key), self.primary_of(key)
        target = to or self._another_primary(source)
        source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
        until(lambda: self.primary_of(key) is target, f"slot {slot} was moved")
        return target

    @contextmanager
    def moving(self, key: str, to: Node | None = None) -> Iterator["ClassicMove"]:
        """Key by key, as every version does it: at first none is moved, in the end all are."""
        source = self.primary_of(key)
        move = ClassicMove(self, slot_of(key), source, to or self._another_primary(source))
        try:
            yield move
        finally:
            move.finish()

    def _another_primary(self, than: Node) -> Node:
        return next(node for node in self.primaries if node is not than)


class ClassicMove:
    """A slot on its way, of which some keys are here and some there."""

    def __init__(self, cluster: Cluster, slot: int, source: Node, target: Node) -> None:
        self._cluster, self.slot = cluster, slot
        self.source, self.target = source, target
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    def waiting(self, most: int = KEYS_AT_ONCE) -> list[str]:
        """Keys that are still at the source."""
        found = self.source.ask("CLUSTER", "GETKEYSINSLOT", self.slot, most)
        return [key.decode() for key in found]

    def move(self, keys: Sequence[str]) -> None:
        host, port = self.target.address
        login = ("AUTH", self.target.server.password)
        self.source.ask("MIGRATE", host, port, "", 0, MOVE_MS, *login, "KEYS", *keys)

    def ask_target(self, *command: str | int) -> Any:
        """As whoever follows ASK."""
        connection = self.target.client.connection_pool.get_connection()
        try:
            connection.send_command("ASKING")
            connection.read_response()
            connection.send_command(*command)
            return connection.read_response()
        finally:
            self.target.client.connection_pool.release(connection)

    def finish(self) -> None:
        while keys := self.waiting():
            self.move(keys)
        others = [n for n in self._cluster.primaries if n not in (self.source, self.target)]
        for node in (self.target, self.source, *others):
            node.ask("CLUSTER", "SETSLOT", self.slot, "NODE", self.target.id)


@contextmanager
def cluster_of(folder: Path, primaries: int = 3, replicas: int = 1) -> Iterator[Cluster]:
    cluster = Cluster(folder, primaries, replicas)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def until(condition: Callable[[], Any], what: str) -> None:
    """Raises TreeFailed. Who does not answer at the moment is asked again."""
    deadline = time.monotonic() + SET_UP_S
    while time.monotonic() < deadline:
        with suppress(StoreUnavailable), reaching_redis():
            if condition():
                return
        time.sleep(POLL_S)
    raise TreeFailed(f"of the Redis Cluster it did not come within {SET_UP_S:g} s that {what}")


def _settings(password: str) -> tuple[str, ...]:
    return (
        "cluster-enabled yes",
        f"cluster-port {free_port()}",
        f"cluster-node-timeout {NODE_TIMEOUT_MS}",
        "cluster-replica-validity-factor 0",  # of a primary that died however long ago
        "cluster-allow-replica-migration no",
        f"masterauth {password}",
        "repl-diskless-sync-delay 0",
        "repl-ping-replica-period 1",
        "repl-backlog-size 1mb",
        f"maxmemory {MEMORY_MAX}",
    )


def _node(server: EmbeddedRedis) -> Node:
    client = client_of(server.url)
    return Node(server, client, client.execute_command("CLUSTER", "MYID").decode())


def _known(node: Node) -> list[bytes]:
    """One line of each node that it has shaken hands with."""
    lines: list[bytes] = node.ask("CLUSTER", "NODES").splitlines()
    return [line for line in lines if b"handshake" not in line]


def _info(node: Node) -> bytes:
    answer: bytes = node.ask("CLUSTER", "INFO")
    return answer


def _is_whole(node: Node) -> bool:
    info: Any = node.client.info("replication")
    has_data = info["role"] == "master" or info["master_link_status"] == "up"
    return has_data and b"cluster_state:ok" in _info(node) and node.topology().is_complete
