"""The dashboard's only door to Redis: group state as values, scripts as functions.

Knows nothing of SQL and Django's models. Everything raises StoreUnavailable when Redis cannot be
asked: a page then says unknown, never zero.
"""

from dashboard.live.connection import StoreUnavailable, close_async_client
from dashboard.live.push import channel_group
from dashboard.live.snapshot import (
    MEMBER_STATES,
    PARTITION_STATES,
    LiveMember,
    LiveNumbers,
    LivePartition,
    LiveSnapshot,
)
from dashboard.live.watching import GroupNotThere, last_snapshot, snapshot

__all__ = [
    "MEMBER_STATES",
    "PARTITION_STATES",
    "GroupNotThere",
    "LiveMember",
    "LiveNumbers",
    "LivePartition",
    "LiveSnapshot",
    "StoreUnavailable",
    "channel_group",
    "close_async_client",
    "last_snapshot",
    "snapshot",
]
