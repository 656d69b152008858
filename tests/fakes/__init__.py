"""A Redis without a server: the scripts written anew in Python, over the same keys and values.

For simulations and agents' tests: a settable clock, locks that run out by it, `restart` (a new
run_id) and `wipe`. It answers what Redis answers (bytes, numbers, None), so that reading answers is
shared; the contract suite and a differential test hold it to the real ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.store import ScriptCall, StoreUnavailable
from agent.store.door import Command
from assignment.scripts import Arguments, Raw
from tests.fakes.group import Group
from tests.fakes.scripts import SCRIPTS
from tests.fakes.server import FakeRedis, b, t

__all__ = ["FakeDoor", "FakeRedis", "run_script"]


class FakeDoor:
    """agent.store.Door over a FakeRedis. `down` cuts this one off."""

    def __init__(self, server: FakeRedis) -> None:
        self.server = server
        self.down = False

    def run(self, call: ScriptCall) -> Raw:
        self._reach()
        return run_script(self.server, call.name, call.keys[0], call.args)

    def run_many(self, calls: Sequence[ScriptCall]) -> list[Raw]:
        return [self.run(call) for call in calls]

    def ask(self, *command: str | bytes | int) -> Raw:
        self._reach()
        return self.server.read(command)

    def ask_together(self, commands: Sequence[Command]) -> list[Raw]:
        return [self.ask(*command) for command in commands]

    def wait(self, stream: str, after: str, timeout_ms: int, count: int) -> Raw:
        """Never waits: time is the test's."""
        return self.ask("XRANGE", stream, f"({after}", "+", "COUNT", count) or None

    def wait_any(self, streams: Mapping[str, str], timeout_ms: int) -> list[str]:
        """Never waits, as `wait`."""
        self._reach()
        return [s for s, after in streams.items() if self.server.xrange(s, f"({after}", "+")]

    def close(self) -> None:
        pass

    def _reach(self) -> None:
        if self.down or self.server.down:
            raise StoreUnavailable("the fake Redis is cut off")


def run_script(server: FakeRedis, name: str, meta_key: str, args: Arguments) -> Raw:
    """What Redis answers to the script of that name."""
    answer = SCRIPTS[name](Group(server, meta_key), [t(a) for a in args], args)
    return _as_redis(answer)


def _as_redis(value: Any) -> Raw:
    if isinstance(value, list):
        return [_as_redis(v) for v in value]
    return b(value) if isinstance(value, str) else value
