"""The whole system on one machine, from start to end: what `up` and the checks have in common."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from dashboard.demo import options as asked
from dashboard.demo.options import Options
from dashboard.demo.parts import Parts, RedisPart, read_status, redis_server
from dashboard.demo.prepare import read_login, write_private
from dashboard.demo.tree import Process, Tree

SETTLE_S = 180.0  # from the last consumer's start to every partition in its hands
NOTHING: Mapping[str, Any] = {
    "ready": False,
    "members": {},
    "partitions": 0,
    "processed": 0,
    "rebalances": 0,
    "conflicts": 0,
}


class Demo:
    """`say` gets the progress, a line each. Every method may raise Refused, TreeFailed, Stopped."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        asked.check_port(options.port)
        if options.demo:
            asked.check_memory(options.consumers, asked.free_mib())
        self.options = options
        self.say = say
        self.lock = asked.lock_folder(options.data)
        self.status_file = options.data / "status.json"
        self.status_file.unlink(missing_ok=True)
        self.addresses = {"public_url": options.url}  # for commands in a second terminal
        self.tree = Tree(say, lock=self.lock)
        self.consumers: list[Process] = []
        self.redis: RedisPart | None = None
        self.parts: Parts

    def start_dashboard(self) -> None:
        """Redis, tables, web, worker, beat, watch."""
        url = self._start_redis()
        self.addresses["redis_url"] = url
        for name, address in self.addresses.items():
            write_private(self.options.data / name, f"{address}\n")
        self.parts = Parts(self.options, url)
        self.say("database: migrating")
        self.parts.prepare()
        self.tree.start(self.parts.web())
        self.tree.start(self.parts.worker())
        self.tree.start(self.parts.beat())
        name, password = read_login(self.options.data / "login")
        self.say(f"dashboard: {self.options.url}  login: {name}  password: {password}")
        if self.options.demo:
            self.tree.start(self.parts.watch(self.status_file))

    def _start_redis(self) -> str:
        server = redis_server(self.options.data)
        if server is None:
            return os.environ["REDIS_URL"]
        self.redis = RedisPart(server)
        self.tree.start(self.redis)
        return server.url

    def start_producer(self, *arguments: str) -> Process:
        producer = self.parts.producer(*arguments)
        self.tree.start(producer)
        return producer

    def start_consumers(self) -> None:
        """One by one: a starting Spark wants a core for itself. Then waits until all is owned."""
        for _ in range(self.options.consumers):
            self.start_consumer()
        self.wait_settled()

    def start_consumer(self, wait: bool = True) -> Process:
        number = len(self.consumers) + 1
        consumer = self.parts.consumer(number, lambda: self.is_ready(f"consumer-{number}-"))
        self.consumers.append(consumer)
        self.tree.start(consumer, wait=wait)
        return consumer

    def wait_settled(self) -> None:
        self.say("waiting until every partition is owned")
        self.tree.wait(
            self.is_settled,
            SETTLE_S,
            f"not every partition was owned within {SETTLE_S:.0f} s",
        )
        owned = sorted(len(member["owned"]) for member in self.status()["members"].values())
        self.say(f"ready: {self.status()['partitions']} partitions owned, {owned} per consumer")

    def is_settled(self) -> bool:
        """Every partition is in the hands that it was given to, and every consumer has joined."""
        status = self.status()
        return bool(status["ready"]) and len(status["members"]) >= len(self.consumers)

    def is_ready(self, name: str) -> bool:
        """Whether a member with that beginning of its id has a consumer that said ready."""
        members = self.status()["members"].items()
        return any(i.startswith(name) and member["state"] == "ready" for i, member in members)

    def status(self) -> Mapping[str, Any]:
        return read_status(self.status_file) or NOTHING

    def stop(self) -> None:
        """In order, whatever stands; may be called at any moment and twice."""
        self.tree.stop()
        for name in self.addresses:
            (self.options.data / name).unlink(missing_ok=True)
        os.close(self.lock)
