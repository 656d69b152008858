"""Runs the texts of assignment/lua on Redis."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from redis.exceptions import NoScriptError

from assignment import lua
from assignment.scripts.values import Call
from assignment.wire import GroupKeys
from dashboard.live.connection import RedisError, reaching_redis, sync_client

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Script:
    text: str
    sha: str


def script_of(text: str) -> Script:
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@cache
def script(name: str) -> Script:
    return script_of(lua.script(name))


def run(call: Call[T], group: str) -> T:
    """Raises StoreUnavailable."""
    return call.read(run_one(script(call.script), GroupKeys(group).of_script, call.args))


def run_one(known: Script, keys: Sequence[str], arguments: Sequence[str | int | bytes]) -> Any:
    """Its answer as it came. Raises StoreUnavailable."""
    try:
        return sync_client().evalsha(known.sha, len(keys), *keys, *arguments)
    except NoScriptError:
        sync_client().script_load(known.text)
        return sync_client().evalsha(known.sha, len(keys), *keys, *arguments)


def run_beside(call: Call[Any], group: str, commands: Iterable[Sequence[str]]) -> list[Any]:
    """The script and then these commands, all at one moment: their answers, as they came but for
    mappings. Raises StoreUnavailable.
    """
    known, asked = script(call.script), list(commands)
    try:
        return _at_one_moment(known.sha, call, group, asked)
    except NoScriptError:
        sync_client().script_load(known.text)
        return _at_one_moment(known.sha, call, group, asked)


def _at_one_moment(
    sha: str, call: Call[Any], group: str, commands: Iterable[Sequence[str]]
) -> list[Any]:
    keys, pipe = GroupKeys(group).of_script, sync_client().pipeline(transaction=True)
    pipe.evalsha(sha, len(keys), *keys, *call.args)
    for command in commands:
        pipe.execute_command(*command)
    return list(pipe.execute())


Each = Sequence[tuple[Sequence[str], Sequence[str | int | bytes]]]  # keys and arguments of each


def run_each(name: str, calls: Each) -> list[Any]:
    """The same script for each, in one trip to each of their servers: their answers. The first
    error is raised, StoreUnavailable among them.
    """
    answers = try_each(script(name), calls)
    for answer in answers:
        if isinstance(answer, RedisError):
            with reaching_redis():
                raise answer
    return answers


def try_each(known: Script, calls: Each) -> list[Any]:
    """As run_each, errors among the answers. Raises StoreUnavailable where a server is away."""
    answers = _asked(known.sha, calls)
    again = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
    if again:
        sync_client().script_load(known.text)
        repeated = _asked(known.sha, [calls[n] for n in again])
        for n, answer in zip(again, repeated, strict=True):
            answers[n] = answer
    return answers


def _asked(sha: str, calls: Each) -> list[Any]:
    pipe = sync_client().pipeline()
    for keys, arguments in calls:
        pipe.evalsha(sha, len(keys), *keys, *arguments)
    return list(pipe.execute(raise_on_error=False))
