"""Runs the texts of assignment/lua on Redis."""

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import redis

from assignment import lua
from assignment.scripts.values import Call
from assignment.wire import GroupKeys
from dashboard.live.connection import reaching_redis, sync_client

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    text = lua.script(name)
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def run(call: Call[T], group: str) -> T:
    """Raises StoreUnavailable."""
    wanted, meta = script(call.script), GroupKeys(group).meta
    with reaching_redis():
        client = sync_client()
        try:
            raw = client.execute_command("EVALSHA", wanted.sha, 1, meta, *call.args)
        except redis.exceptions.NoScriptError:
            raw = client.execute_command("EVAL", wanted.text, 1, meta, *call.args)
    return call.read(raw)
