"""Tells browsers' sockets that a group changed, over the channel layer. A lost message costs
nothing.
"""

import asyncio
import hashlib
import logging
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from dashboard.live.connection import ANSWER_TIMEOUT_S, StoreUnavailable, reaching_redis
from dashboard.live.deadline import left_s

CHANGED = "group.changed"  # the sockets' handler is group_changed

log = logging.getLogger(__name__)


def channel_group(group: str) -> str:
    """The channel layer's name for a group: its own rules leave fewer letters than ours."""
    return "group." + hashlib.sha256(group.encode()).hexdigest()[:32]


def push(group: str, what: str) -> None:
    """`what`: ownership, target, members or history."""
    try:
        with reaching_redis():
            async_to_sync(_send)(group, {"type": CHANGED, "group": group, "what": what})
    except StoreUnavailable as error:
        log.warning("change of group=%s not pushed: %s", group, error)


async def _send(group: str, message: dict[str, str]) -> None:
    layer: Any = get_channel_layer()
    async with asyncio.timeout(left_s(ANSWER_TIMEOUT_S)):  # the layer itself waits for ever
        await layer.group_send(channel_group(group), message)
