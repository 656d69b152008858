"""Tells browsers' sockets that a group changed, over the channel layer. A lost message costs
nothing.
"""

import hashlib
import logging

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from dashboard.live.connection import StoreUnavailable, reaching_redis

CHANGED = "group.changed"  # the sockets' handler is group_changed

log = logging.getLogger(__name__)


def channel_group(group: str) -> str:
    """The channel layer's name for a group: its own rules leave fewer letters than ours."""
    return "group." + hashlib.sha256(group.encode()).hexdigest()[:32]


def push(group: str, what: str) -> None:
    """`what`: ownership, target, members or history."""
    layer = get_channel_layer()
    assert layer is not None, "CHANNEL_LAYERS is always configured"
    message = {"type": CHANGED, "group": group, "what": what}
    try:
        with reaching_redis():
            async_to_sync(layer.group_send)(channel_group(group), message)
    except StoreUnavailable as error:
        log.warning("change of group=%s not pushed: %s", group, error)
