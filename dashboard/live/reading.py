"""What an agent is told beside its target: settings and epochs."""

from typing import Any

import msgspec

from assignment.wire import GroupKeys
from dashboard.live.connection import StoreUnavailable, async_client, reaching_redis

EPOCHS = ("incarnation", "mode_epoch", "group_epoch", "target_epoch", "settings_epoch")


async def settings_of(group: str) -> dict[str, Any]:
    """Fields of wire.Reply: identity, epochs and settings. Raises StoreUnavailable."""
    names = *EPOCHS, "identity", "settings"
    with reaching_redis():
        *epochs, identity, settings = await async_client().hmget(GroupKeys(group).meta, *names)
    if settings is None:
        raise StoreUnavailable(f"group {group!r} is not set up in Redis yet; try again")
    reply: dict[str, Any] = {
        name: int(value or 0) for name, value in zip(EPOCHS, epochs, strict=True)
    }
    reply |= {"identity": (identity or b"").decode(), "settings": msgspec.Raw(settings)}
    return reply
