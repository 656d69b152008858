"""A consumer without Spark: real socket, real scripts, real locks; it counts events instead of
reading.

Run by an agent. Its whims come by environment: TINY_BATCH_MS (how long a batch takes),
TINY_SILENT (never says ready), TINY_READY_FILE (not before that file is there), TINY_HANG_FILE
(hangs while that file is there), TINY_CRASHES (ends with code 13 at its first batch).
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from msgspec.structs import replace

from agent.consumer import in_hand
from agent.consumer.control import AgentLink
from agent.store.door import StoreUnavailable
from agent.store.events import EventStore
from agent.store.group import GroupStore
from assignment.errors import Fenced
from assignment.scripts import agent_side
from assignment.scripts.agent_side import BatchStart, CommitRequest, CommitResult
from assignment.types import Range
from assignment.wire import ConsumerHealth

BATCH_S = float(os.environ.get("TINY_BATCH_MS", "20")) / 1_000
HANG_FILE = os.environ.get("TINY_HANG_FILE", "")
READY_FILE = os.environ.get("TINY_READY_FILE", "")


def main() -> int:
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    link = AgentLink.connect(
        spark_application_id=f"tiny-{os.getpid()}",
        stateful=not os.environ.get("TINY_STATELESS"),
        on_gone=ending.set,
    )
    store = GroupStore.connect(link.control.redis_url, link.control.group)
    while READY_FILE and not Path(READY_FILE).exists() and not ending.wait(0.02):
        continue
    state = "starting" if os.environ.get("TINY_SILENT") else "ready"
    health = ConsumerHealth(state=state, spark_application_id=f"tiny-{os.getpid()}")
    while not ending.is_set():
        try:
            if health.batch < 0:
                store.write_progress(link.control.speaker, replace(health, batch=0))
                health = replace(health, batch=0)
            health = turn(link, store, health)
        except (StoreUnavailable, Fenced):
            time.sleep(0.05)
    return 0


def turn(link: AgentLink, store: GroupStore, health: ConsumerHealth) -> ConsumerHealth:
    member = link.control.member
    planned = store.run(agent_side.next_batch(link.control.speaker)) if link.may_process() else ()
    done = 0
    time.sleep(BATCH_S)
    if planned and os.environ.get("TINY_CRASHES"):
        events = EventStore(store.door)
        parts = [
            Range(p.partition, p.committed, events.last_offset(p.partition), p.fence)
            for p in planned
        ]
        in_hand.write(Path(link.control.state_dir), in_hand.BatchInHand(os.getpid(), tuple(parts)))
        os._exit(13)
    while HANG_FILE and Path(HANG_FILE).exists():
        Path(f"{HANG_FILE}.seen").touch()
        time.sleep(0.05)
    for plan in planned:
        done += process(store, member, plan)
    if not done:
        return health
    health = replace(
        health, batch=health.batch + 1, batch_at_ms=int(time.time() * 1_000), rows=done
    )
    store.write_progress(link.control.speaker, health)
    return health


def process(store: GroupStore, member: str, plan: BatchStart) -> int:
    stream = EventStore(store.door)
    end = stream.last_offset(plan.partition)
    if end <= plan.committed:
        return 0
    events = sum(map(len, stream.read(plan.partition, plan.committed, end, "")))
    request = CommitRequest(
        partition=plan.partition,
        member_id=member,
        fence=plan.fence,
        from_offset=plan.committed,
        to_offset=end,
        events=events,
    )
    return events if store.run(agent_side.commit(request)).result is CommitResult.DONE else 0


if __name__ == "__main__":
    sys.exit(main())
