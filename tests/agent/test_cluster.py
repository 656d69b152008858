"""Real agents and consumers over a Redis Cluster that is struck: every event has its effect once.

No dashboard: agents coordinate, consumers without Spark read, `agent.pipelines.load` produces.
"""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from agent.store.door import StoreUnavailable
from agent.store.events import EventStore
from assignment.scripts.dashboard_side import configure
from assignment.types import START, Coordination, Partition, Reason
from assignment.wire import ChangelogEntry, StreamKeys, unpack_ids
from dashboard.evaluation.cluster_servers import Cluster
from tests.agent.conftest import ROOT, AgentProcess, World, until

LIGHT = (sys.executable, "-m", "agent.pipelines.light")
KEYS, RATE = 20, 200
PARTITIONS = 4
# A primary is replaced in some seconds: leases end meanwhile, sessions and all.
TIMINGS = {
    "lease_ms": 3_000,
    "renew_ms": 1_000,
    "session_timeout_ms": 3_000,
    "heartbeat_ms": 500,
    "grace_ms": 2_000,
    "consumer_stall_ms": 60_000,
}
MOVED_ON = 200  # events after a strike


class Flow(World):
    """Two agents with their consumers share what one producer appends."""

    consumer = LIGHT

    def __init__(self, folder: Path, cluster: Cluster, group: str) -> None:
        super().__init__(folder, cluster.url, group)
        self.cluster = cluster
        self.stream = f"s-{group}"
        self.events = EventStore(self.store.door)
        self.acknowledged = folder / "acknowledged"
        self.log = folder / "producer.log"

    def begin(self) -> None:
        chosen = self.settings(stateful=True, partitions=PARTITIONS, **TIMINGS)
        call = configure(
            chosen, Reason.SETTINGS, rebalance_due=False, coordination=Coordination.CLIENT
        )
        self.store.door.ask("DEL", self.store.keys.meta)  # of a group with a dashboard
        self.store.run(call)
        self.store.note_reader(chosen)
        self.producer = subprocess.Popen(
            [
                *(sys.executable, "-m", "agent.pipelines.load", "--redis-url", self.redis_url),
                *("--stream", self.stream, "--partitions", str(PARTITIONS), "--form", "lines"),
                *("--keys", str(KEYS), "--rate", str(RATE)),
                *("--acknowledged", str(self.acknowledged)),
            ],
            cwd=ROOT,
            stderr=self.log.open("wb"),
        )
        for name in "ab":
            self.alone(name)
        members = [self.member(name) for name in "ab"]
        until(lambda: [len(self.running(m)) for m in members] == [2, 2], "they share", 60)
        self.until_more()

    @property
    def applied(self) -> int:
        try:
            return sum(applied.total for applied in self.read().applied.values())
        except StoreUnavailable:
            return -1

    def entries(self, number: int) -> str:
        return StreamKeys(self.stream).entries(number)

    def until_more(self) -> None:
        """Events of every partition are processed, some more than before."""
        before = max(0, self.applied)
        until(lambda: self.applied >= before + MOVED_ON, "events are processed", 60)

    def end(self) -> set[int]:
        """The ids of all events, once all that was acknowledged is processed."""
        self.producer.send_signal(signal.SIGTERM)
        assert self.producer.wait(30) == 0, self.log.read_text()
        partitions = [Partition(self.stream, n) for n in range(PARTITIONS)]
        ends = {p: self.events.last_offset(p) for p in partitions}
        until(lambda: self.store.committed(partitions) == ends, "all is processed", 60)
        sent = int(self.log.read_text().rpartition("asked to end after ")[2].split()[0])
        return set(range(sent))

    def changelogs(self) -> Mapping[Partition, list[ChangelogEntry]]:
        partitions = [Partition(self.stream, n) for n in range(PARTITIONS)]
        return {p: list(self.store.read_changelog(p, "0-0", 100_000).entries) for p in partitions}

    def close(self) -> None:
        self.producer.kill()
        self.producer.wait()
        super().close()


@pytest.fixture
def flow(tmp_path: Path, cluster: Cluster, group_name: str) -> Iterator[Flow]:
    made = Flow(tmp_path, cluster, group_name)
    try:
        made.begin()
        yield made
    finally:
        made.close()


def judge(flow: Flow) -> None:
    """Each event's effect once, each commit behind the one before it."""
    sent = flow.end()
    counts: Counter[int] = Counter()
    for partition, entries in flow.changelogs().items():
        assert entries[0].from_offset == START, "the changelog is whole"
        assert all(one.to_offset == two.from_offset for one, two in pairwise(entries)), partition
        counts.update(i for entry in entries for i in unpack_ids(entry.ids))
        fences = [entry.fence for entry in entries]
        assert fences == sorted(fences), partition
    assert not {i: n for i, n in counts.items() if n > 1}, "an effect twice"
    assert not sent - counts.keys(), "an event without effect"
    assert set(map(int, flow.acknowledged.read_text().split())) <= counts.keys()


def test_slots_are_moved_while_events_flow(flow: Flow) -> None:
    """At once: who is led to the new node takes it for one that may have lost writes. Key by key:
    the group stands still, since none of its scripts is begun, until all of them are there.
    """
    keys = flow.store.keys
    for key in (flow.entries(0), keys.meta, flow.entries(1), keys.meta):
        flow.cluster.move_slot(key)
        flow.until_more()
    with flow.cluster.moving(keys.meta) as move:
        waiting = move.waiting(1_000)
        before = move.source.ask("HVALS", keys.offsets)
        move.move([keys.meta, keys.offsets])
        move.move([one for one in waiting if one.endswith(":0")])
        until(lambda: all(map(has_stopped, flow.agents)), "their leases end")
        assert move.ask_target("HVALS", keys.offsets) == before
    flow.until_more()
    judge(flow)


def has_stopped(agent: AgentProcess) -> bool:
    return any(e["why"] == "no renew within the last lease" for e in agent.events("unable"))


def test_primaries_of_group_and_events_fail_while_events_flow(flow: Flow) -> None:
    for key in (flow.entries(0), flow.store.keys.meta):
        dead = flow.cluster.fail_over(key)
        try:
            flow.until_more()
        finally:
            flow.cluster.revive(dead)
    judge(flow)
