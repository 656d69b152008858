"""The tiny consumer, keeping state: of each key the last event. Without Spark. Run by an agent."""

import sys

from agent.store.events import EventStore
from agent.store.group import GroupStore
from assignment.scripts import agent_side
from assignment.scripts.agent_side import BatchStart, CommitRequest, CommitResult
from assignment.wire import pack_changes
from tests.agent import tiny_consumer

KEYS = 50


def process(store: GroupStore, member: str, plan: BatchStart) -> int:
    events = EventStore(store.door)
    end = events.last_offset(plan.partition)
    found = [e for chunk in events.read(plan.partition, plan.committed, end, "") for e in chunk]
    if not found:
        return 0
    last = {f"key-{i % KEYS}": entry_id.decode() for i, (entry_id, _) in enumerate(found)}
    request = CommitRequest(
        partition=plan.partition,
        member_id=member,
        fence=plan.fence,
        from_offset=plan.committed,
        to_offset=end,
        events=len(found),
        changes=pack_changes(last),
    )
    return len(found) if store.run(agent_side.commit(request)).result is CommitResult.DONE else 0


if __name__ == "__main__":
    tiny_consumer.process = process
    sys.exit(tiny_consumer.main())
