"""Waits at Redis for the next event of a group's locks: a connection each, nothing is asked again
and again.
"""

from assignment.wire import GroupKeys
from dashboard.live.connection import async_client, node_of, reaching_redis

WAIT_MS = 2_000  # shorter than any answer may take


async def has_event(group: str, position: str) -> bool:
    """Whether the log has an entry after `position`, as soon as it has; False after WAIT_MS. Raises
    StoreUnavailable.
    """
    log = GroupKeys(group).events
    with reaching_redis():
        client = async_client(await node_of(log))
        return bool(await client.xread({log: position}, count=1, block=WAIT_MS))
