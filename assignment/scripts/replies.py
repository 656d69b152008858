"""What join and report answer, as the dashboard passes it on and as an agent reads it."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from assignment import wire

EPOCHS = ("incarnation", "mode_epoch", "group_epoch", "target_epoch", "settings_epoch")


def of_group(epochs: Iterable[str], identity: str, settings: str, **more: Any) -> wire.Reply:
    """What join and report answer in their own order. The settings are passed on as they are stored
    (`read_reply`); "": the agent has them. `more`: other fields of the reply.
    """
    numbers: dict[str, Any] = dict(zip(EPOCHS, map(int, epochs), strict=True))
    fields = numbers | more
    as_stored: Any = None
    if settings:
        wire.parse_settings(settings)
        as_stored = msgspec.Raw(settings)
    return wire.Reply(status=wire.Status.OK, identity=identity, settings=as_stored, **fields)


def read_reply(reply: wire.Reply) -> wire.Reply:
    """As an agent reads it from a dashboard: nothing in it is as it was stored any more."""
    target, settings = reply.target, reply.settings
    if isinstance(target, msgspec.Raw):
        target = msgspec.json.decode(target)
    if isinstance(settings, msgspec.Raw):
        settings = wire.parse_settings(bytes(settings).decode())
    return replace(reply, target=target, settings=settings)
