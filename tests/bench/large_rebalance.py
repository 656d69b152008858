"""What a rebalance of a large group costs, and a preview with all strategies, in CPU.

One more member joins a settled group: from the read of Redis to the record in the database, which
is SQLite in a file. In a process of its own over a Redis of its own; its own CPU and that of Redis
are added up.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, TypeVar

from tests.bench import apart
from tests.bench.apart import Figure

SIZES = {20_000: 150.0, 100_000: 800.0}  # partitions -> aim of a rebalance
MEMBERS = 100
TIMES = 3
PREVIEW_AIM = 3.0
PROGRAM = "from tests.bench import large_rebalance; large_rebalance.measure({})"
T = TypeVar("T")


def figures() -> list[dict[str, Any]]:
    found = (apart.rows(_of(size, aim), partial(measured, size)) for size, aim in SIZES.items())
    return [row for rows in found for row in rows]


def _of(size: int, aim: float) -> tuple[Figure, Figure]:
    name = f"{size // 1_000}k"
    return (
        Figure(name=f"rebalance_{name}_cpu_ms", aim=aim),
        Figure(name=f"preview_{name}_ratio", unit="rebalances", aim=PREVIEW_AIM),
    )


def measured(size: int) -> list[tuple[float, str]]:
    found = json.loads(apart.answer(PROGRAM.format(size)))
    rebalance, preview = sum(found["rebalance"].values()), sum(found["preview"].values())
    of = f"{MEMBERS} members, median of {TIMES}; ms of CPU by part: "
    parts = [of + ", ".join(f"{k} {v:.0f}" for k, v in found[name].items()) for name in found]
    return [(round(rebalance, 1), parts[0]), (round(preview / rebalance, 2), parts[1])]


def measure(size: int) -> None:
    """Prints the milliseconds of each part, as JSON."""
    from dashboard.live import groups as live_groups
    from dashboard.records.queries import previews
    from tests.bench.live_group import NAME, LiveGroup

    live, found = LiveGroup(size, MEMBERS), list[dict[str, float]]()
    commit(NAME, size)
    for _ in range(TIMES):
        live.join()
        apart.progress("a rebalance")
        found.append(rebalance_parts(NAME))
        live.settle()
    apart.progress("previews")
    looked = [Costs() for _ in range(TIMES)]
    read = live_groups.read
    for costs in looked:
        live_groups.read = partial(costs.of, "read", read)
        costs.of("compute", previews.of_group, NAME)
    print(json.dumps({
        "rebalance": _medians(found), "preview": _medians([costs.parts for costs in looked])
    }))  # fmt: skip


def commit(group_name: str, size: int) -> None:
    """What the last commit of every partition leaves."""
    from assignment.wire import GroupKeys
    from dashboard.live.connection import sync_client

    keys, names = GroupKeys(group_name), [f"{group_name}:{number}" for number in range(size)]
    sync_client().hset(keys.offsets, mapping=dict.fromkeys(names, "1764000000000-7"))
    sync_client().hset(keys.applied, mapping=dict.fromkeys(names, "1000000 1764000000000"))


def _medians(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: median(one[name] for one in found) for name in found[0]}


def rebalance_parts(group_name: str) -> dict[str, float]:
    """As a worker carries it out."""
    from assignment.coordinator import effects, rebalance
    from assignment.types import Coordination
    from dashboard.coordinator.carrying import Here, perform
    from dashboard.models import Group

    costs = Costs()
    here = Here(group_name, Group.objects.get(name=group_name))
    names = {effects.Read: "read", effects.SetTarget: "store", effects.KeepOutbox: "keep"}
    steps = rebalance.rebalance(Coordination.SERVER)

    def answered(effect: effects.Effect[Any]) -> Any:
        return costs.of(names.get(type(effect), "other"), perform, here, effect)

    said = costs.of("compute", effects.run, steps, answered)
    assert "kept" in said, said
    return costs.parts


class Costs:
    """Milliseconds of CPU by part; a part inside of another is none of that one's."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = defaultdict(float)
        self._part, self._own_s, self._redis_s = "", 0.0, 0.0

    def of(self, part: str, act: Callable[..., T], *arguments: Any) -> T:
        before = self._begin(part)
        try:
            return act(*arguments)
        finally:
            self._begin(before)

    def _begin(self, part: str) -> str:
        """Answers the part that was at work so far; "" is none."""
        own_s, redis_s, before = time.process_time(), redis_cpu_s(), self._part
        if before:
            self.parts[before] += (own_s - self._own_s) * 1_000
            self.parts["Redis"] += (redis_s - self._redis_s) * 1_000
        self._part, self._redis_s, self._own_s = part, redis_cpu_s(), time.process_time()
        return before


def redis_cpu_s() -> float:
    from dashboard.live.connection import sync_client

    used = sync_client().info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
