"""Two real servers behind one name: a primary that can be made the other's replica."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.evaluation.forwarder import Forwarder

PATIENCE_S = 10.0


class Pair:
    """`url` names `old` until it is switched; both have one password."""

    def __init__(self, folder: Path, binary: Path) -> None:
        self.old = EmbeddedRedis(folder / "old", binary=binary)
        self.new = EmbeddedRedis(folder / "new", binary=binary)
        self.new.password = self.old.password
        for server in (self.old, self.new):
            server.start()
        self.name = Forwarder(self.old.port or 0)
        self.url = f"redis://:{self.old.password}@127.0.0.1:{self.name.port}/0"
        self.at_old, self.at_new = (redis.Redis.from_url(s.url) for s in (self.old, self.new))

    def demote(self) -> None:
        """The old one replicates from the new one; the name still leads to it."""
        self.at_old.config_set("masterauth", self.old.password)
        self.at_old.replicaof("127.0.0.1", str(self.new.port))

    def lose_primary(self) -> None:
        """The old one is the replica of nobody that answers, and says so to readers too."""
        self.at_old.config_set("replica-serve-stale-data", "no")
        self.at_old.replicaof("127.0.0.1", "1")

    def switch(self) -> None:
        self.name.switch(self.new.port or 0)

    def waits(self) -> int:
        found: Any = self.at_old.info("clients")
        return int(found["blocked_clients"])

    def close(self) -> None:
        self.name.close()
        for client, server in ((self.at_old, self.old), (self.at_new, self.new)):
            client.close()
            server.kill()  # one that copies the other takes its time to stop


@contextmanager
def pair_of(folder: Path, binary: Path) -> Iterator[Pair]:
    pair = Pair(folder, binary)
    try:
        yield pair
    finally:
        pair.close()


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)
