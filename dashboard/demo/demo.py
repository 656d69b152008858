"""The whole system on one machine, from start to end: what `up` and the checks have in common."""

import os
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from dashboard.demo import options as asked
from dashboard.demo import requests
from dashboard.demo.files import write_private
from dashboard.demo.options import Options, Refused
from dashboard.demo.parts import Parts, RedisPart, read_status, redis_server
from dashboard.demo.prepare import shown_login
from dashboard.demo.tree import Process, Tree

SETTLE_S = 180.0  # from the last consumer's start to every partition in its hands
FAREWELL_S = 30.0  # how long after its end nobody may know whether a consumer was told to leave
NOTHING: Mapping[str, Any] = {
    "ready": False,
    "members": {},
    "partitions": 0,
    "learning": 0,
    "processed": 0,
    "rebalances": 0,
    "conflicts": 0,
}


class Demo:
    """`say` gets the progress, a line each. Every method may raise Refused, TreeFailed, Stopped."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        if options.demo:
            asked.check_memory(
                options.consumers,
                asked.free_mib(),
                options.consumer_mib,
                webs=options.webs,
                workers=options.workers,
            )
        self.options = options
        self.say = say
        self.lock = asked.lock_folder(options.data)
        self.tree = Tree(say, str(options.data.resolve()), self.lock)
        try:
            asked.check_port(options.port)  # after the tree has ended what held it before
        except Refused:
            self.tree.stop()
            os.close(self.lock)
            raise
        self.status_file = options.data / "status.json"
        self.status_file.unlink(missing_ok=True)
        self.environment: dict[str, str] = {}  # of every process besides what Parts says
        self.addresses = {"public_url": options.url}  # for commands in a second terminal
        self._consumers: list[Process] = []
        self._ends_seen: dict[tuple[str, int], int] = {}
        self.stopped = False
        self.redis: RedisPart | None = None
        self.parts: Parts

    def start_dashboard(self) -> None:
        """Redis, tables, web, worker, beat, watch."""
        url = self._start_redis()
        self.addresses["redis_url"] = url
        for name, address in self.addresses.items():
            write_private(self.options.data / name, f"{address}\n")
        self.parts = Parts(self.options, url)
        self.parts.environment |= self.environment
        self.say("database: migrating")
        self.parts.prepare()
        for part in (*self.parts.webs(), *self.parts.workers()):
            self.tree.start(part)
        self.tree.start(self.parts.beat())
        self.say(f"dashboard: {self.options.url}  {shown_login(self.options.data / 'login')}")
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

    @property
    def consumers(self) -> list[Process]:
        """Those that are looked after: neither ended for good nor taken out."""
        return [consumer for consumer in self._consumers if consumer in self.tree.parts]

    def start_consumer(self, wait: bool = True) -> Process:
        number = self._free_number()
        consumer = self.parts.consumer(
            number,
            is_ready=lambda: self.is_ready(f"consumer-{number}-"),
            may_end=lambda code: self.has_left(consumer, code),
        )
        self._consumers = [*self.consumers, consumer]
        self.tree.start(consumer, wait=wait)
        return consumer

    def _free_number(self) -> int:
        """The lowest that no consumer has and no member's name begins with."""
        taken = {consumer.name for consumer in self.consumers}
        taken |= {member_id.rpartition("-")[0] for member_id in self.status()["members"]}
        return next(number for number in count(1) if f"consumer-{number}" not in taken)

    def has_left(self, consumer: Process, code: int) -> bool | None:
        """Whether one that ended was told to leave by a scale-down since it was started.

        None: it ended in order, and what was told until then is not known yet.
        """
        status, now_ms = self.status(), time.time_ns() // 1_000_000
        for member_id, asked_at_ms in status.get("told", {}).items():
            named = member_id.startswith(f"{consumer.name}-")
            if named and asked_at_ms >= consumer.started_ms:
                return True
        if code != 0:
            return False
        seen_ms = self._ends_seen.setdefault((consumer.name, consumer.started_ms), now_ms)
        known = status.get("at_ms", 0) > seen_ms
        return False if known or now_ms - seen_ms > FAREWELL_S * 1_000 else None

    def serve_requests(self) -> None:
        """Starts a consumer that the demo's page asks for, one after the other. To be called now
        and then.
        """
        waiting = requests.waiting(self.options.data)
        if not waiting or not all(consumer.is_ready() for consumer in self.consumers):
            return
        try:
            asked.check_memory_of_one_more(asked.free_mib())
        except Refused as error:
            requests.refuse(self.options.data, waiting[0].id, str(error))
            return
        self.say(f"{waiting[0].actor or 'somebody'} asks for another consumer")
        self.start_consumer(wait=False)
        requests.done(self.options.data, waiting[0].id)

    def wait_settled(self) -> None:
        self.say("waiting until every partition is owned")
        since_ms = time.time_ns() // 1_000_000
        self.tree.wait(
            lambda: self.is_settled(since_ms),
            SETTLE_S,
            f"not every partition was owned within {SETTLE_S:.0f} s",
        )
        owned = sorted(len(member["owned"]) for member in self.status()["members"].values())
        self.say(f"ready: {self.status()['partitions']} partitions owned, {owned} per consumer")

    def is_settled(self, since_ms: int = 0) -> bool:
        """Every partition is in the hands that it was given to, nobody learns one, and every
        consumer has joined, as read after that moment: what a watch said that is being restarted
        stays in its file.
        """
        status = self.status()
        if status.get("at_ms", 0) < since_ms:
            return False
        all_here = len(status["members"]) >= len(self.consumers)
        return bool(status["ready"] and not status["learning"] and all_here)

    def is_ready(self, name: str) -> bool:
        """Whether a member with that beginning of its id has a consumer that said ready."""
        members = self.status()["members"].items()
        return any(i.startswith(name) and member["state"] == "ready" for i, member in members)

    def status(self) -> Mapping[str, Any]:
        return read_status(self.status_file) or NOTHING

    def stop(self) -> None:
        """In order, whatever stands; may be called at any moment and twice."""
        requests.close(self.options.data)
        self.tree.stop()
        for name in self.addresses:
            (self.options.data / name).unlink(missing_ok=True)
        if not self.stopped:
            os.close(self.lock)
        self.stopped = True
