"""The assignors that pip can install, on the same work: aiokafka and kafka-python.

Each runs in a process of its own, with a bound on its CPU and its memory. What it gets is made
before the clock starts, as it is for ours; its names are part of its work, so `names_ms` has to be
added to ours for a fair comparison.
"""

import json
import math
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from assignment.strategies.dense import NOBODY, Owners
from tests.bench.assign.measure import cpu_ms, member_name, topic_name
from tests.bench.assign.work import ROWS, Quality, Work

CPU_MAX_S = 12
MEMORY_MAX = 4 * 2**30  # bytes of address space: what the project asks of a machine
PAIRS_MAX = 20_000_000  # of partition and reader; each costs a sticky assignor about 100 bytes
QUICK_MS = 1_000  # warm runs are taken only of what is quicker
RUNS = 3
ROOT = Path(__file__).resolve().parents[3]


def beside(name: str, work: Work) -> dict[str, Any]:
    """{library: {"assignor", "version", "best_ms", ...} or {"skipped": reason}}."""
    return {library: _beside(library, name, work) for library in ADAPTERS}


def _beside(library: str, name: str, work: Work) -> dict[str, Any]:
    assignor = assignor_for(work)
    if reason := out_of_reach(assignor, work):
        return {"assignor": assignor, "skipped": reason}
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.assign.peers", library, assignor, name, str(CPU_MAX_S)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return json.loads(done.stdout)
    return {"assignor": assignor, "skipped": _why(done)}


def assignor_for(work: Work) -> str:
    """Range does the work where nothing is owned and all read one topic; else sticky alone does."""
    fresh = (work.previous == NOBODY).all()
    return "range" if fresh and len(work.subscribed) == 1 else "sticky"


def out_of_reach(assignor: str, work: Work) -> str:
    pairs = int(work.subscribed.sum(axis=1) @ np.diff(work.starts))
    if assignor == "range" or pairs <= PAIRS_MAX:
        return ""
    return (
        f"cannot: not tried, it lists each partition with each of its readers, {pairs:,} pairs"
        f" of about 100 bytes; the bound is {PAIRS_MAX:,}"
    )


def _why(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode == -signal.SIGXCPU:
        return f"cannot: tried, and not done after {CPU_MAX_S} s of CPU"
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return f"cannot: tried, and it ended with {last}"


# --- in the process of its own ------------------------------------------------------------------


class Cluster:
    """As much of a cluster's metadata as assignors ask for."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._partitions = {topic: set(range(size)) for topic, size in sizes.items()}

    def topics(self) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self._partitions.get(topic)


def main(library: str, assignor: str, name: str, cpu_max_s: str) -> None:
    """Prints the answer as JSON; ended by SIGXCPU when the bound is reached."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    work = ROWS[name]()
    assign = ADAPTERS[library](assignor, cluster_of(work), work)
    bound_s = math.ceil(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + int(cpu_max_s)
    resource.setrlimit(resource.RLIMIT_CPU, (bound_s, bound_s + 1))
    found: list[Any] = []
    times = [cpu_ms(lambda: found.append(assign()))]
    while times[0] < QUICK_MS and len(times) <= RUNS:
        times.append(cpu_ms(lambda: found.append(assign())))
    print(
        json.dumps(
            shown(library, assignor, min(times), Quality.of(work, owners_of(work, found[-1])))
        )
    )


def shown(library: str, assignor: str, best_ms: float, quality: Quality) -> dict[str, Any]:
    return {
        "assignor": assignor,
        "version": version(library),
        "best_ms": best_ms,
        "moves": quality.moves,
        "max_minus_min": quality.max_minus_min,
        "most_even": quality.most_even,
    }


def cluster_of(work: Work) -> Cluster:
    sizes = np.diff(work.starts).tolist()
    return Cluster({topic_name(t): size for t, size in enumerate(sizes)})


def held(work: Work) -> dict[int, dict[str, list[int]]]:
    """Position of a member -> topic -> numbers that it owned."""
    topic = np.repeat(np.arange(len(work.subscribed)), np.diff(work.starts))
    number = np.arange(len(topic)) - work.starts[topic]
    found: dict[int, dict[str, list[int]]] = {m: {} for m in range(len(work.live))}
    for member, t, n in zip(work.given.tolist(), topic.tolist(), number.tolist(), strict=True):
        if member != NOBODY:
            found[member].setdefault(topic_name(t), []).append(n)
    return found


def reads(work: Work, member: int) -> list[str]:
    return [topic_name(t) for t in np.flatnonzero(work.subscribed[:, member]).tolist()]


def aiokafka(assignor: str, cluster: Cluster, work: Work) -> Callable[[], Any]:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
        StickyAssignorUserDataV1,
        StickyPartitionAssignor,
    )
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

    members = {}
    for member, owned in held(work).items():
        data = StickyAssignorUserDataV1(list(owned.items()), 1).encode() if owned else b""
        members[member_name(work.live[member])] = ConsumerProtocolMemberMetadata(
            0, reads(work, member), data
        )
    chosen = RangePartitionAssignor if assignor == "range" else StickyPartitionAssignor
    return lambda: {m: given.assignment for m, given in chosen.assign(cluster, members).items()}


def kafka_python(assignor: str, cluster: Cluster, work: Work) -> Callable[[], Any]:
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    members = [
        SimpleNamespace(
            member_id=member_name(work.live[member]),
            group_instance_id=None,
            metadata=ConsumerProtocolSubscription(
                0,
                reads(work, member),
                StickyAssignorUserData(list(owned.items()), 1) if owned else b"",
            ),
        )
        for member, owned in held(work).items()
    ]
    chosen = RangePartitionAssignor() if assignor == "range" else StickyPartitionAssignor()
    return lambda: {
        m: given.assigned_partitions for m, given in chosen.assign(cluster, members).items()
    }


ADAPTERS: dict[str, Callable[[str, Cluster, Work], Callable[[], Any]]] = {
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}


def owners_of(work: Work, assigned: Mapping[str, Any]) -> Owners:
    """Positions in `live`, as our core answers."""
    result = np.full(len(work.previous), NOBODY, dtype=np.int32)
    first = {topic_name(t): start for t, start in enumerate(work.starts[:-1].tolist())}
    position = {member_name(number): p for p, number in enumerate(work.live.tolist())}
    for member, topics in assigned.items():
        for topic, numbers in topics:
            result[np.array(numbers, dtype=np.int64) + first[topic]] = position[member]
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
