"""The scripts' texts: the only writers of shared state. Read here, run by both sides' stores."""

from functools import cache
from importlib.resources import files

NAMES = (
    "acquire",
    "append",
    "appended",
    "bound",
    "commit",
    "configure",
    "crash",
    "evict",
    "join",
    "leave",
    "next_batch",
    "progress",
    "read_group",
    "release",
    "renew",
    "report",
    "request_rebalance",
    "restore",
    "resume",
    "set_drain",
    "set_incarnation",
    "set_state",
    "set_target",
    "skip",
    "snapshot",
    "sweep",
)
_OWN_SLOT = frozenset(
    {"append", "appended", "bound"}
)  # a stream's script: its keys lie in the stream's slot, not in the group's


@cache
def script(name: str) -> str:
    """The whole text of one script, the common part before it; FileNotFoundError if unknown."""
    folder = files(__name__)
    text = (folder / f"{name}.lua").read_text()
    return text if name in _OWN_SLOT else (folder / "_common.lua").read_text() + text
