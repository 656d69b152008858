"""The agent's and its consumer's only door to Redis (nothing else of `agent` imports redis).

`GroupStore` and `StreamStore` run the scripts of assignment/lua and read what they wrote. They
decide nothing and know no clock.
"""

from agent.store.door import BLOCK_MAX_MS, Door, RedisDoor, ScriptCall, ServerFacts, Timeouts
from agent.store.errors import StoreUnavailable
from agent.store.group import GroupStore, Hint, Hints, MemberTarget
from agent.store.stream import Entry, StreamStore

__all__ = [
    "BLOCK_MAX_MS",
    "Door",
    "Entry",
    "GroupStore",
    "Hint",
    "Hints",
    "MemberTarget",
    "RedisDoor",
    "ScriptCall",
    "ServerFacts",
    "StoreUnavailable",
    "StreamStore",
    "Timeouts",
]
