"""fault_check on a Redis Cluster of its own, three primaries with a replica each: besides
consumers, nodes are struck and slots moved. Broker and channel layer have a Redis of theirs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from assignment.wire import GroupKeys, StreamKeys
from dashboard.demo.demo import Demo
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.demo.options import GROUP
from dashboard.demo.parts import RedisPart
from dashboard.demo.tree import TreeFailed
from dashboard.evaluation.checks.faults import LEASE_S, TAKEOVER_MS, Faults, Kind, Note
from dashboard.evaluation.cluster_servers import NODE_TIMEOUT_MS, Cluster
from dashboard.evaluation.system import RECOVER_S, now_ms

# Until a dead primary is missed, and as long again until its replica is elected.
ELECTION_MS = 2 * NODE_TIMEOUT_MS
HALF_MOVED_S = 2.0  # a slot lies so long on two nodes


class ClusterDemo(Demo):
    """Its cluster is no part of the tree: what is dead there stays so until it is revived."""

    cluster: Cluster | None = None

    def _start_redis(self) -> str:
        broker = EmbeddedRedis(self.options.data / "broker")
        self.tree.start(RedisPart(broker, name="broker"))
        self.environment = dict.fromkeys(
            ("EVENKEEL_BROKER_URL", "EVENKEEL_CHANNELS_URL"), broker.url
        )
        self.say("cluster: starting")
        self.cluster = Cluster(self.options.data / "cluster")
        return self.cluster.start()

    def stop(self) -> None:
        super().stop()
        if self.cluster is not None:
            self.cluster.stop()
            self.cluster = None


class ClusterFaults(Faults):
    @property
    def cluster(self) -> Cluster:
        cluster = cast(ClusterDemo, self.run.demo).cluster
        assert cluster is not None
        return cluster

    @property
    def of_group(self) -> str:
        return GroupKeys(GROUP).meta

    @property
    def of_stream(self) -> str:
        """Entries of a partition that lie on another node than the group. Raises TreeFailed."""
        keys, groups_node = StreamKeys(GROUP), self.cluster.primary_of(self.of_group)
        for number in range(self.run.demo.options.partitions):
            if self.cluster.primary_of(keys.entries(number)) is not groups_node:
                return keys.entries(number)
        raise TreeFailed("every partition lies on the group's node")

    def group_failover(self) -> None:
        self._failover("group_failover", self.of_group)

    def stream_failover(self) -> None:
        self._failover("stream_failover", self.of_stream)

    def _failover(self, name: str, key: str) -> None:
        with self._on_nodes(name, TAKEOVER_MS + ELECTION_MS):
            dead = self.cluster.fail_over(key)
        self.cluster.revive(dead)

    def group_slot(self) -> None:
        with self._on_nodes("group_slot"):
            self.cluster.move_slot(self.of_group)

    def stream_slot(self) -> None:
        with self._on_nodes("stream_slot"):
            self.cluster.move_slot(self.of_stream)

    def group_slot_by_key(self) -> None:
        """The group stands still while its keys lie on two nodes."""
        with self._on_nodes("group_slot_by_key"), self.cluster.moving(self.of_group) as move:
            keys = move.waiting()
            move.move(keys[: len(keys) // 2])
            self.run.pass_time(HALF_MOVED_S)

    @contextmanager
    def _on_nodes(self, name: str, bound_ms: int = TAKEOVER_MS) -> Iterator[None]:
        """Recovered: the group is read from whoever has it, with every partition in its hands."""
        with self.step(name, bound_ms, None) as note:
            yield
            self._return(note)

    def _return(self, note: Note) -> None:
        since_ms = now_ms()
        self.run.wait(
            lambda: self.run.demo.is_settled(since_ms), RECOVER_S, "the group did not return"
        )
        note.recovered_ms = now_ms() - note.began_ms
        self.run.pass_time(LEASE_S)
        note.over_ms = now_ms()


STEPS: Mapping[str, Callable[[Any], None]] = {
    step.__name__: step
    for step in (
        Faults.kill,
        Faults.suspend,
        ClusterFaults.group_failover,
        ClusterFaults.stream_failover,
        ClusterFaults.group_slot,
        ClusterFaults.stream_slot,
        ClusterFaults.group_slot_by_key,
    )
}
ON_CLUSTER = Kind(ClusterDemo, ClusterFaults, STEPS, {"consumers": 2, "partitions": 6})
