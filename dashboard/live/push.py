"""Tells browsers' sockets that a group changed, over the channel layer. A lost message costs
nothing.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import Any

from channels.layers import get_channel_layer
from django.conf import settings

from dashboard.live.connection import StoreUnavailable, sync_client

CHANGED = "group.changed"
RIGHTS = "rights"  # the channel layer's group of who looks whether logins have ended
LISTEN_AGAIN_S = 1.0

log = logging.getLogger(__name__)


def channel_group(group: str) -> str:
    """The channel layer's name for a group: its own rules leave fewer letters than ours."""
    return "group." + hashlib.sha256(group.encode()).hexdigest()[:32]


def push(group: str, what: str) -> None:
    """`what`: ownership, target, members, pauses, settings or history."""
    try:
        _send(channel_group(group), {"type": CHANGED, "group": group, "what": what})
    except StoreUnavailable as error:
        log.warning("change of group=%s not pushed: %s", group, error)


def push_rights() -> None:
    """Somebody's login may have ended: who has open sockets looks at once."""
    try:
        _send(RIGHTS, {"type": RIGHTS})
    except StoreUnavailable as error:
        log.warning("change of rights not pushed: %s", error)


def _send(channels: str, message: dict[str, str]) -> None:
    """Over a connection that is there: the layer itself makes an event loop and one connection for
    each message that is sent from outside of a loop. Raises StoreUnavailable.
    """
    layer: Any = get_channel_layer()
    name, content = layer.published(channels, message)
    sync_client(settings.CHANNELS_URL).publish(name, content)


async def listen(channels: str, heard: Callable[[], object]) -> None:
    """Calls `heard` whenever somebody sends to that group of channels, until it is cancelled."""
    while True:
        try:
            layer: Any = get_channel_layer()
            channel = await layer.new_channel()
            await layer.group_add(channels, channel)
            while True:
                await layer.receive(channel)
                heard()
        except Exception as error:  # of whatever layer it is; its users look without it too
            log.info("channel layer of %s away: %s", channels, error)
            await asyncio.sleep(LISTEN_AGAIN_S)
