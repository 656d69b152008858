"""The scripts' real texts, in Lua 5.1 in this process, over a keyspace.

One runtime for all servers of a process: a script's function keeps nothing between two runs, and
environment.lua keeps it from making globals. Lists cross as many values, which is much quicker than
a table each.
"""

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lupa.lua51 import LuaRuntime
from redis.exceptions import ResponseError

from assignment.lua import script
from tests.fakes.values import Nested, Reply, Status

if TYPE_CHECKING:
    from tests.fakes.keyspace import Keyspace

CROSSING_MAX = 500  # values; Lua's stack has room for some thousand
CHANGED: dict[str, str] = {}  # texts that stand for those of these scripts: planted bugs
ENVIRONMENT = Path(__file__).with_name("environment.lua")


def text_of(name: str) -> str:
    return CHANGED.get(name) or script(name)


class Interpreter:
    def __init__(self) -> None:
        lua = LuaRuntime(
            encoding=None, unpack_returned_tuples=True, register_eval=False, register_builtins=False
        )
        self._table: Any = lua.table_from
        made = lua.execute(ENVIRONMENT.read_bytes(), self._command, parsed)
        load, self._run, self._run_long, self._reply = made
        self._load = cache(lambda text: load(text.encode()))

    def run(
        self, keyspace: "Keyspace", text: str, keys: Sequence[bytes], args: Sequence[bytes]
    ) -> Reply:
        self._execute = keyspace.execute
        function = self._load(text)
        if len(keys) + len(args) <= CROSSING_MAX:
            return self._answer(self._run(function, len(keys), *keys, *args))
        return self._answer(self._run_long(function, self._table(keys), self._table(args)))

    # --- what Lua asks

    def _command(self, *call: Any) -> Any:
        """One command, and its reply as environment.lua takes it."""
        try:
            if not plain(call):
                call = as_arguments(call)
            reply = self._execute(call)
        except ResponseError as error:
            return None, b"err", str(error).encode()
        kind = type(reply)
        if kind is bytes or kind is int:
            return reply
        if reply is None:
            return False
        if kind is Status:
            return None, b"ok", bytes(reply)  # type: ignore[arg-type]
        return self._list(reply, kind is Nested)  # type: ignore[arg-type]

    def _list(self, values: Sequence[Any], nested: bool) -> Any:
        if nested:
            values = list(map(self._inner, values))
        elif None in values:
            values = [False if value is None else value for value in values]
        return (True, *values) if len(values) <= CROSSING_MAX else self._table(values)

    def _inner(self, value: Any) -> Any:
        if value is None:
            return False
        return self._table(map(self._inner, value)) if isinstance(value, list) else value

    # --- what Lua answers

    def _answer(self, told: Any) -> Reply:
        kind = type(told)
        if kind is bytes or kind is int:
            return told  # type: ignore[no-any-return]
        if kind is tuple:
            return self._told_list(told[1:]) if told[0] else self._told_kind(*told[1:])
        if told is True:
            return []
        if kind is float:
            return int(told)
        return self._answer(self._reply(told)) if told else None

    def _told_list(self, values: tuple[Any, ...]) -> list[Any]:
        if plain(values):
            return list(values)
        if None in values:
            values = values[: values.index(None)]
        return [v if type(v) is bytes else 1 if v is True else self._answer(v) for v in values]

    def _told_kind(self, kind: bytes, told: Any, length: int = 0) -> Reply:
        match kind:
            case b"ok":
                return Status(told)
            case b"long":
                return self._told_list(tuple(told[n] for n in range(1, int(length) + 1)))
            case b"err":
                raise ResponseError(told.decode(errors="replace"))
        if isinstance(told, BaseException):
            raise told  # of ours
        raise ResponseError(f"ERR {told.decode(errors='replace')}")


def plain(values: tuple[Any, ...]) -> bool:
    """Whether all are texts; quicker than to look at each."""
    try:
        b"".join(values)
    except TypeError:
        return False
    return bool(values)


def as_arguments(values: tuple[Any, ...]) -> tuple[bytes, ...]:
    if not values:
        raise ResponseError("ERR Please specify at least one argument for this redis.call() call")
    return tuple(map(argument, values))


def argument(value: Any) -> bytes:
    """As Redis writes it: numbers of Lua as texts."""
    if type(value) is bytes:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ResponseError("ERR Lua redis lib command arguments must be strings or integers")
    return b"%d" % value if isinstance(value, int) else b"%.17g" % value


# --- JSON -----------------------------------------------------------------------------------------


def parsed(text: bytes) -> tuple[bytes | None, bytes]:
    """The text of a Lua function that makes that value, or why it is no JSON."""
    try:
        value = json.loads(text.decode(errors="surrogateescape"), parse_int=float)
        return b"local null = ... return " + _source(value), b""
    except (ValueError, RecursionError) as error:
        at = getattr(error, "pos", 0) + 1
        return None, b"Expected value but found invalid token at character %d" % at


def _source(value: Any) -> bytes:
    match value:
        case None:
            return b"null"
        case bool():
            return b"true" if value else b"false"
        case float() if math.isfinite(value):
            return b"%.17g" % value
        case str():
            return _quoted(value)
        case list():
            return b"{" + b",".join(map(_source, value)) + b"}"
        case dict():
            rows = (b"[" + _quoted(k) + b"]=" + _source(v) for k, v in value.items())
            return b"{" + b",".join(rows) + b"}"
        case _:
            raise ValueError(f"{value} is no number")


def _quoted(text: str) -> bytes:
    raw = text.encode(errors="surrogateescape")
    if raw.isalnum():
        return b'"' + raw + b'"'
    return b'"' + b"".join(b"\\%03d" % byte for byte in raw) + b'"'


INTERPRETER = Interpreter()
