"""rebalance_ms: from a member that can take work to the last partition that its coming moved.

Real dashboard, Celery worker, Redis and agents; the consumers are tiny ones, so that Spark's start,
10-20 s, does not hide what coordination costs. Then what a rebalance of a large group costs.
"""

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from agent.store.group import GroupStore
from dashboard.demo.demo import Demo
from dashboard.demo.options import GROUP
from tests.agent.tiny_demo import tiny_demo
from tests.bench import large_rebalance

JOINS = 5
DEADLINE_S = 60.0


def rows() -> list[dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder,
        tiny_demo(Path(folder), consumers=1) as demo,
    ):
        store = GroupStore.connect(demo.parts.redis_url, GROUP)
        took = [joined_ms(demo, store) for _ in range(JOINS)]
    return [
        {
            "name": "rebalance_ms",
            "value": median(took),
            "unit": "ms",
            "ratio": None,
            "yardstick": f"median of {JOINS} joins, 12 partitions, 2 to {JOINS + 1} members",
        },
        *large_rebalance.figures(),
    ]


def joined_ms(demo: Demo, store: GroupStore) -> int:
    """One more member: from the moment it is able to the last `acquired` event that follows."""
    before = store.door.ask("XREVRANGE", store.keys.events, "+", "-", "COUNT", 1)[0][0]
    consumer = demo.start_consumer()
    demo.tree.wait(
        lambda: demo.is_settled() and owns(demo, consumer.name),
        DEADLINE_S,
        "the new member got nothing",
    )
    entries = store.door.ask("XRANGE", store.keys.events, b"(" + before, "+")
    acquired = [event for _, event in entries if b"acquired" in event]
    last_ms = max(int(event[event.index(b"at_ms") + 1]) for event in acquired)
    return last_ms - able_at_ms(store, consumer.name)


def owns(demo: Demo, name: str) -> bool:
    return any(
        member_id.startswith(f"{name}-") and member["owned"]
        for member_id, member in demo.status()["members"].items()
    )


def able_at_ms(store: GroupStore, name: str) -> int:
    """Of the row in `members`: when the member last became able, by Redis' clock."""
    raw = store.door.ask("HGETALL", store.keys.members)
    for member_id, row in zip(raw[::2], raw[1::2], strict=True):
        if member_id.decode().startswith(f"{name}-"):
            return int(json.loads(row)["able_at_ms"])
    raise LookupError(name)
