"""A Redis without a server: its commands and its data in Python, the scripts' real texts in Lua.

For simulations and agents' tests: a settable clock, locks that run out by it, lost writes and
failovers. It answers what Redis answers (bytes, numbers, None), so that reading answers is shared;
the contract suite and a differential test hold it to the real ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis.exceptions import ResponseError

from agent.store.door import Command, ScriptCall, StoreUnavailable
from assignment.errors import InvariantBroken, Trouble, trouble_of
from assignment.scripts.values import Raw
from tests.fakes.server import FakeRedis

__all__ = ["FakeDoor", "FakeRedis"]


class FakeDoor:
    """agent.store.Door over a FakeRedis. `down` cuts this one off.

    As one connection: after a failover it leads to the old primary until that refuses or ends.
    """

    in_cluster = False
    address = "fake"

    def __init__(self, server: FakeRedis) -> None:
        self.server = server
        self.down = False
        self._connection = server.connections

    def run(self, call: ScriptCall) -> Raw:
        return self._answer(self._reach().run_script, call.name, call.keys, call.args)

    def run_many(self, calls: Sequence[ScriptCall]) -> list[Raw]:
        return [self.run(call) for call in calls]

    def ask(self, *command: str | bytes | int) -> Raw:
        return self._answer(self._reach().ask, *command)

    def ask_together(self, commands: Sequence[Command]) -> list[Raw]:
        return [self.ask(*command) for command in commands]

    def wait(self, streams: Mapping[str, str], timeout_ms: int, count: int) -> Raw:
        """Never waits: time is the test's. But a failover since the last call ends it."""
        server = self._reach()
        found = ((n.encode(), self._above(server, n, id_, count)) for n, id_ in streams.items())
        return [(name, entries) for name, entries in found if entries]

    def wait_any(self, streams: Mapping[str, str], timeout_ms: int) -> list[str]:
        """Never waits, as `wait`."""
        server = self._reach()
        return [name for name, after in streams.items() if self._above(server, name, after, 1)]

    def settle(self, keys: Sequence[str]) -> None:
        """One server, as RedisDoor."""

    def close(self) -> None:
        pass

    def _reach(self) -> FakeRedis:
        if self.down or self.server.down:
            raise StoreUnavailable("the fake Redis is cut off")
        if self._connection == self.server.connections:
            return self.server
        if self.server.former is None:
            self._connection = self.server.connections
            raise StoreUnavailable("the fake Redis closed the connection")
        return self.server.former

    def _above(self, server: FakeRedis, stream: str, after: str, count: int) -> Raw:
        return self._answer(server.above, stream, after, count)

    def _answer(self, asked: Callable[..., Raw], *args: Any) -> Raw:
        try:
            return asked(*args)
        except ResponseError as error:
            trouble = trouble_of(str(error))
            if trouble is Trouble.BUG:
                raise InvariantBroken(f"the fake Redis answered: {error}") from error
            if trouble is Trouble.ELSEWHERE:
                self._connection = self.server.connections
            raise StoreUnavailable(f"the fake Redis refuses: {error}") from error
