"""Runs the texts of assignment/lua on Redis."""

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from assignment import lua
from assignment.scripts.values import Call
from assignment.wire import GroupKeys
from dashboard.live.connection import sync_client

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Script:
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    text = lua.script(name)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def run(call: Call[T], group: str) -> T:
    """Raises StoreUnavailable."""
    known = sync_client().register_script(script(call.script).text)
    return call.read(known(keys=[GroupKeys(group).meta], args=call.args))
