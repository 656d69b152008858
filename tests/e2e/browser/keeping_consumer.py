"""The tiny consumer, keeping state: of each key the last event. Without Spark. Run by an agent."""

import sys

from agent.store.group import GroupStore
from agent.store.stream import StreamStore
from assignment.scripts.agent_side import BatchStart, CommitRequest, CommitResult
from assignment.types import Offset
from assignment.wire import pack_changes
from tests.agent import tiny_consumer

KEYS = 50


def process(store: GroupStore, member: str, plan: BatchStart) -> int:
    stream = StreamStore(store.door, plan.partition.stream)
    found = stream.read(plan.partition.number, plan.committed, 1_000)
    if not found:
        return 0
    last = {f"key-{i % KEYS}": entry.entry_id.decode() for i, entry in enumerate(found)}
    request = CommitRequest(
        partition=plan.partition,
        member_id=member,
        fence=plan.fence,
        from_offset=plan.committed,
        to_offset=Offset.parse(found[-1].entry_id.decode()),
        events=len(found),
        changes=pack_changes(last),
    )
    return len(found) if store.commit(request).result is CommitResult.DONE else 0


if __name__ == "__main__":
    tiny_consumer.process = process
    sys.exit(tiny_consumer.main())
