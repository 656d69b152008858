"""Runs the texts of assignment/lua on Redis."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import redis

from assignment import lua
from assignment.wire import GroupKeys
from dashboard.live.connection import reaching_redis, sync_client


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    text = lua.script(name)
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def run(name: str, group: str, arguments: Sequence[Any] = ()) -> Any:
    """The script's answer, as Redis gave it. Raises StoreUnavailable."""
    wanted, meta = script(name), GroupKeys(group).meta
    with reaching_redis():
        client = sync_client()
        try:
            return client.execute_command("EVALSHA", wanted.sha, 1, meta, *arguments)
        except redis.exceptions.NoScriptError:
            return client.execute_command("EVAL", wanted.text, 1, meta, *arguments)
