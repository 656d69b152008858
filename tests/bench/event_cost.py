"""What events cost Redis: appended one an entry, planned, read and committed as a consumer does.

Real Redis, no Spark. Two runs differ in how many events a commit has: so an event's part is told
from a commit's, which has a `next_batch`, a bound and a read with it.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agent.producer.entries import item_of, pack
from agent.store.door import RedisDoor
from agent.store.events import Append, AppendResult, EventStore
from assignment.scripts.agent_side import CommitRequest
from assignment.types import Partition
from dashboard.demo.embedded_redis import EmbeddedRedis
from tests.bench.one_agent import row
from tests.contract.world import World

PARTITION = Partition("flights", 0)  # of the group that a World makes
EVENTS = 20_000
APPENDED = 10  # in one trip of a producer: they come within its linger time
FEW, MANY = 20, 500  # events of a commit
CHANGES = bytes(200)  # of one commit: what a few keys take
BYTES_MAX = 2**24


class Taken(NamedTuple):
    """By Redis, since it was started."""

    cpu_s: float
    commands: int
    memory: int


def rows() -> list[dict[str, Any]]:
    few, many = taken(FEW), taken(MANY)
    of = f"{EVENTS} events, {APPENDED} a trip, one an entry; {FEW} and {MANY} a commit"
    event, commit = apart(few, many)
    return [
        row("redis_event_us", round(event.cpu_s * 1e6, 2), "us", of),
        row("redis_commit_us", round(commit.cpu_s * 1e6, 2), "us", of),
        row("redis_event_commands", round(event.commands, 3), "commands", of),
        row("redis_commit_commands", round(commit.commands, 3), "commands", of),
        row("redis_event_bytes", round(few.memory / EVENTS, 1), "bytes", "until it is trimmed"),
    ]


def taken(each: int) -> Taken:
    """By all events, of which each commit has so many."""
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder:
        redis = EmbeddedRedis(Path(folder) / "redis")
        redis.start()
        door = RedisDoor(redis.url)
        try:
            return Scene(door).taken(each)
        finally:
            door.close()
            redis.stop()


def apart(few: Taken, many: Taken) -> tuple[Any, Any]:
    """What one event takes, and one commit: none below 0, where noise is more than both."""
    events, commits = {}, {}
    for name in ("cpu_s", "commands"):
        more, less = getattr(few, name), getattr(many, name)
        commits[name] = max(0.0, (more - less) / (EVENTS / FEW - EVENTS / MANY))
        events[name] = max(0.0, (less - commits[name] * EVENTS / MANY) / EVENTS)
    return Taken(**events, memory=0), Taken(**commits, memory=0)


class Scene:
    """One member that owns one partition."""

    def __init__(self, door: RedisDoor) -> None:
        self.door, self.world, self.store = door, World(door, "events"), EventStore(door)
        self.world.runs(a={PARTITION})
        self.store.ensure(PARTITION.stream, self.world.read().meta.settings.partitions)

    def taken(self, each: int) -> Taken:
        before = self._taken()
        for first in range(0, EVENTS, each):
            self._append(first, each)
            self._commit(each)
        after = self._taken()
        return Taken(*(late - early for early, late in zip(before, after, strict=True)))

    def _append(self, first: int, count: int) -> None:
        for begin in range(first, first + count, APPENDED):
            some = range(begin, begin + APPENDED)
            events = ({"id": n, "key": f"key-{n % 20}", "amount": n % 100} for n in some)
            entries = pack("json", [item_of("json", event, event["id"]) for event in events])
            batch = Append(PARTITION, begin // APPENDED + 1, entries)
            assert self.store.append("bench", [batch]) == [AppendResult.DONE]

    def _commit(self, count: int) -> None:
        (start,) = self.world.next_batch("a")
        (bound,) = self.store.bounds([(PARTITION, start.committed)], count, BYTES_MAX)
        to = bound.to_offset
        if bound.probe:
            *_, to = self.store.ids(PARTITION, start.committed, count)
        read = sum(map(len, self.store.read(PARTITION, start.committed, to, start.replication_id)))
        assert read == count, f"{read} events were read, not {count}"
        (answer,) = self.world.store.commit_many([self._request(start, to, count)])
        assert answer.applied, answer

    def _request(self, start: Any, to: Any, count: int) -> CommitRequest:
        return CommitRequest(
            partition=PARTITION, member_id="a", fence=start.fence,
            from_offset=start.committed, to_offset=to, events=count, base_total=start.total,
            changes=CHANGES, replication_id=start.replication_id,
        )  # fmt: skip

    def _taken(self) -> Taken:
        info = _numbers(self.door.ask("INFO", "everything"))
        cpu_s = info["used_cpu_user"] + info["used_cpu_sys"]
        return Taken(cpu_s, int(info["total_commands_processed"]), int(info["used_memory"]))


def _numbers(text: bytes) -> dict[str, float]:
    lines: Sequence[list[str]] = [line.split(":", 1) for line in text.decode().splitlines()]
    return {
        name: float(value)
        for name, value in (line for line in lines if len(line) == 2)
        if name in ("used_cpu_user", "used_cpu_sys", "total_commands_processed", "used_memory")
    }
