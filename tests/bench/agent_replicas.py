"""What replicas of state cost their agent: 64 standbys that nothing happens to, and one commit
each.

Real Redis, default timings. The owner is played by the bench, with as many keys in each commit as a
small micro-batch changes.
"""

import time
from typing import Any

import psutil

from assignment.scripts import agent_side
from assignment.scripts.agent_side import CommitRequest, Granted, StateChange
from assignment.types import START, GroupSettings, HeldState, Offset, Partition
from assignment.wire import pack_changes
from tests.agent.conftest import World, until
from tests.bench.one_agent import (
    PARTITIONS,
    WATCHED_S,
    cpu_s,
    private_mebibytes,
    row,
    wait,
    world_of,
)

COMMITS_PER_S = 50
KEYS = 100
STREAM = "s-replicas"


def rows() -> list[dict[str, Any]]:
    with world_of("replicas") as world:
        return measured(world)


class Owner:
    """A member that never ends its lease while the bench lasts, and commits."""

    def __init__(self, world: World) -> None:
        self.store = world.store
        self.at = START
        answer = self.store.acquire("owner", 600_000, 1, 1, partitions())
        assert isinstance(answer, tuple)
        self.fences = {a.partition: a.fence for a in answer if isinstance(a, Granted)}
        self.store.run(
            agent_side.set_state(
                "owner",
                [
                    StateChange(p, f, HeldState.RESTORING, HeldState.RUNNING)
                    for p, f in self.fences.items()
                ],
            )
        )
        self.offsets = dict.fromkeys(self.fences, START)

    def commit(self, number: int) -> None:
        partition = Partition(STREAM, number % PARTITIONS)
        low = self.offsets[partition]
        self.offsets[partition] = high = Offset(low.ms + 1, 0)
        changes = {f"key-{number}-{n}": {"seen": n, "flights": number} for n in range(KEYS)}
        self.store.run(
            agent_side.commit(
                CommitRequest(
                    partition=partition,
                    member_id="owner",
                    fence=self.fences[partition],
                    from_offset=low,
                    to_offset=high,
                    events=KEYS,
                    changes=pack_changes(changes),
                )
            )
        )


def partitions() -> list[Partition]:
    return [Partition(STREAM, n) for n in range(PARTITIONS)]


def measured(world: World) -> list[dict[str, Any]]:
    settings = GroupSettings(
        stream=STREAM, partitions=PARTITIONS, stateful=True, session_timeout_ms=10_000
    )
    world.dashboard.configure(settings)
    agent = world.agent(TINY_BATCH_MS="500")
    member = world.member()
    world.dashboard.join("owner")
    world.dashboard.assign({"owner": range(PARTITIONS)}, standby={member: range(PARTITIONS)})
    owner = Owner(world)
    for number in range(PARTITIONS):
        owner.commit(number)
    process = psutil.Process(agent.process.pid)
    until(lambda: ready(world, member) == PARTITIONS, "all replicas are there")
    idle_s = cpu_s(process, wait)
    commits = int(COMMITS_PER_S * WATCHED_S)
    busy_s = cpu_s(process, lambda: steady(owner, commits))
    private = private_mebibytes(process)
    behind = max(c.lag for c in world.read().reports[member].replicas.values())
    assert behind <= 2 * KEYS, f"a standby is {behind} events behind"
    return [
        row("agent_replicas_memory", round(private, 1), "MiB", f"private, {PARTITIONS} standbys"),
        row(
            "agent_replicas_idle_cpu",
            round(100 * idle_s / WATCHED_S, 2),
            "% of a core",
            f"{PARTITIONS} standbys, nothing is committed (aim 1)",
        ),
        row(
            "agent_replicas_cpu_per_commit",
            round(1_000 * (busy_s - idle_s) / commits, 2),
            "ms",
            f"{KEYS} changed keys each, {COMMITS_PER_S} commits a second",
        ),
    ]


def ready(world: World, member: str) -> int:
    report = world.read().reports.get(member)
    return sum(replica.ready for replica in report.replicas.values()) if report else 0


def steady(owner: Owner, commits: int) -> None:
    began_s = time.monotonic()
    for number in range(commits):
        owner.commit(number)
        time.sleep(max(0.0, began_s + (number + 1) / COMMITS_PER_S - time.monotonic()))
