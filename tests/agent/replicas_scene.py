"""The owner's side of replicas: it commits, and writes snapshots of a state of its own.

Over a real Redis and real files, with the threads that an agent has.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.consumer.control import monotonic_ms
from agent.replicas.manager import ReplicaManager
from agent.replicas.replica import Replica
from agent.state.partition import PartitionState
from agent.state.restore import restore as bring_up
from agent.state.snapshots import write_snapshot
from agent.store.group import GroupStore
from assignment.member.replicas import Wanted
from assignment.scripts import agent_side
from assignment.types import Offset, Partition, ReplicaReport, Role
from assignment.wire import pack_changes
from tests.contract.world import P0, World, offset

PATIENCE_S = 20.0
LEARNER, STANDBY, OWNER = Role.LEARNER, Role.STANDBY, Role.OWNER
MANY = tuple(Partition("flights", n) for n in range(14))


class Watched:
    """A store that counts what is asked of it, and can hold it back."""

    def __init__(self, store: GroupStore) -> None:
        self.store = store
        self.asked: Counter[str] = Counter()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        if name == "read_changelog":
            self.goes_on.wait(PATIENCE_S)
        return getattr(self.store, name)


class Scene:
    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.store = Watched(world.store)
        self.patient: Any = self.store  # of those who restore
        self.delivered: list[Any] = []
        self.fences: dict[Partition, int] = {}
        self.made: list[ReplicaManager] = []
        self.owners = folder / "owner"

    def replicas(self, **options: Any) -> ReplicaManager:
        made = ReplicaManager(
            self.patient,
            self.folder / "replicas",
            self.delivered.append,
            monotonic_ms,
            quick=self.store,  # type: ignore[arg-type]
            **options,
        )
        self.made.append(made)
        return made

    # --- the owner

    def own(self, *partitions: Partition) -> None:
        self.world.configure(partitions=len(MANY))
        self.world.join("a")
        self.world.set_incarnation(1)
        self.world.assign(a=set(partitions))
        for partition in partitions:
            self.fences[partition] = self.world.running("a", partition)

    def commit(self, partition: Partition = P0, events: int = 1, **changes: Any) -> Offset:
        low = self.world.store.committed([partition])[partition]
        high = offset(low.ms + events)
        packed = pack_changes(changes or {f"k{high.ms}": high.ms})
        answer = self.world.commit(
            partition, self.fences[partition], low, high, events=events, changes=packed
        )
        assert answer.applied
        return high

    def snapshot(self, partition: Partition = P0, *, trim: bool = True) -> Path:
        """Of everything committed, written and recorded as the owner does it."""
        state = PartitionState.open(self.owners, self.world.store.group, partition)
        bring_up(self.world.store, state, partition)
        record = write_snapshot(state, str(self.folder / "snapshots"), "g", self.fences[partition])
        state.close()
        self.world.store.run(agent_side.snapshot(partition, record, trim=trim))
        return Path(record.url)

    def content(self, partition: Partition = P0) -> dict[str, Any]:
        """Of the replica's file, once nobody has it open."""
        state = PartitionState.open(self.folder / "replicas", self.world.store.group, partition)
        with state.reading() as reading:
            found = dict(reading.items())
        state.close()
        return found

    def file(self, partition: Partition = P0) -> list[str]:
        folder = self.folder / "replicas" / self.world.store.group
        return [path.name for path in folder.glob(f"{partition}.*")]

    # --- waiting

    def news(self, kind: type) -> list[Any]:
        return [one for one in list(self.delivered) if isinstance(one, kind)]

    def close(self) -> None:
        self.store.goes_on.set()
        for replicas in self.made:
            replicas.close()
        assert not self.news(BaseException)


def until(fact: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (value := fact()):
        assert time.monotonic() < deadline, f"did not happen: {what}"
        time.sleep(0.01)
    return value


def wanted(role: Role = STANDBY, *partitions: Partition, **more: Any) -> Wanted:
    return Wanted(replicas=dict.fromkeys(partitions or (P0,), role), **more)


def of(replicas: ReplicaManager, partition: Partition = P0) -> Replica:
    """What is known of it now."""
    return replicas._replicas.of[partition]


def caught_up(replicas: ReplicaManager, partition: Partition = P0) -> ReplicaReport:
    """Its report once it lacks nothing."""

    def report() -> ReplicaReport | None:
        found = replicas.reports().get(partition)
        return found if found and found.lag == 0 and not found.why else None

    return until(report, f"{partition} caught up: {replicas.reports()}")
