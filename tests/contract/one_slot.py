"""A fake server that lets a script touch no more than it may in a Redis Cluster, where a slot may
be moved: a partition's events what the script declares, a group what lies in the group's slot.
"""

from typing import Any

from assignment.lua import is_of_stream
from assignment.scripts.values import Arguments, Raw
from assignment.slots import slot_of
from assignment.wire import GroupKeys
from tests.fakes import FakeRedis
from tests.fakes.keyspace import Call
from tests.fakes.values import Reply, as_bytes

WITHOUT_KEYS = frozenset((b"TIME", b"INFO"))
ALL_ARE_KEYS = frozenset((b"MGET", b"DEL", b"EXISTS"))
KEY_IS_SECOND = frozenset((b"XINFO", b"XGROUP", b"MEMORY"))


def keys_of(call: Call) -> tuple[bytes, ...]:
    if call[0] in WITHOUT_KEYS:
        return ()
    if call[0] in ALL_ARE_KEYS:
        return call[1:]
    return (call[1 + (call[0] in KEY_IS_SECOND)],)


class OneSlot(FakeRedis):
    _script = ""
    _declared: tuple[bytes, ...] = ()
    run: set[str] = set()  # noqa: RUF012 (names of scripts, of all tests)

    def run_script(self, name: str, keys: Any, args: Arguments) -> Raw:
        self._script, self._declared = name, tuple(as_bytes(keys))
        if not is_of_stream(name):
            group = GroupKeys(self._declared[0].decode()[4:-6])
            assert self._declared == tuple(as_bytes(group.of_script)), f"{name} declares them"
        assert len(set(map(slot_of, self._declared))) == 1
        try:
            return super().run_script(name, keys, args)
        finally:
            self._declared = ()
            self.run.add(name)

    def execute(self, call: Call) -> Reply:
        for key in keys_of(call) if self._declared else ():
            if is_of_stream(self._script):
                assert key in self._declared, f"{self._script} touches {key!r}"
            else:
                assert slot_of(key) == slot_of(self._declared[0]), f"{self._script}: {key!r}"
            assert not key.endswith(b":guard"), "it is never there"
        return super().execute(call)
