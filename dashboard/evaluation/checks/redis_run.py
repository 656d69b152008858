"""What the steps of redis_check share: a tree whose Redis has a name, what the check sees of it by
itself, and the judgement of a step.

The name is a forwarder, so that another server can take the place of the first. What the check
counts it reads from the servers, never from what the product says.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assignment.scripts.lock_events import LockEvent
from assignment.types import Offset, Partition
from dashboard.demo import logs
from dashboard.demo.demo import Demo
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.demo.options import GROUP
from dashboard.demo.parts import RedisPart
from dashboard.demo.tree import Process
from dashboard.evaluation import agent_logs, recorded
from dashboard.evaluation.checks import redis_judge
from dashboard.evaluation.checks.redis_judge import Gap, Step, Tenure
from dashboard.evaluation.forwarder import Forwarder
from dashboard.evaluation.inspecting import Ownership, Server, acknowledged
from dashboard.evaluation.judge import NOTHING, Content, effects, joined
from dashboard.evaluation.redis_servers import content_of, server
from dashboard.evaluation.system import PROCESSED_S, RECOVER_S, TIMINGS, Run, ask, now_ms
from dashboard.live.connection import StoreUnavailable

WARM_BATCHES = 4
RESEND_S = 5.0  # within it a producer that starts anew sends again what is missing
HISTORY_TRIES = 6  # times HISTORY_WAIT_S: how long history may be behind the locks
HISTORY_WAIT_S = 5.0


class Vacuous(Exception):
    """The fault did nothing, so there is nothing to judge."""


class NamedDemo(Demo):
    """Everything in it reaches Redis by a name: agents, consumers, producer, dashboard."""

    name: Forwarder | None = None

    def _start_redis(self) -> str:
        first = server(self.options.data / "redis")
        self.redis = RedisPart(first)
        self.tree.start(self.redis)
        assert first.port is not None, "it was started"
        self.name = Forwarder(first.port)
        return f"redis://:{first.password}@127.0.0.1:{self.name.port}/0"

    def stop(self) -> None:
        super().stop()
        if self.name is not None:
            self.name.close()


@dataclass(slots=True, kw_only=True)
class Note:
    """What a step finds out while it runs.

    `past`: what the server held that forgot; `hurt`: names of consumers whose moves have a cause.
    """

    name: str
    began_ms: int
    began_s: float  # monotonic
    owners: Mapping[Partition, tuple[str, int]]
    recorded: Mapping[str, Any]
    log_size: int  # of the producer's log
    how: str = ""
    past: Content | None = None
    hurt: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    healed_s: float = 0.0
    base: Ownership | None = None
    recovered_ms: int | None = None


@dataclass(slots=True)
class RedisRun:
    """`past` and `gone`: what the steps before left behind."""

    run: Run
    past: Content = NOTHING
    gone: set[int] = field(default_factory=set)
    servers: dict[str, Server] = field(default_factory=dict)

    @property
    def demo(self) -> NamedDemo:
        assert isinstance(self.run.demo, NamedDemo), "the steps need a name"
        return self.run.demo

    @property
    def name(self) -> Forwarder:
        assert self.demo.name is not None, "it was started"
        return self.demo.name

    @property
    def part(self) -> RedisPart:
        assert self.demo.redis is not None, "it was started"
        return self.demo.redis

    @property
    def primary(self) -> EmbeddedRedis:
        return self.part.server

    def seen(self, of: EmbeddedRedis | None = None) -> Server:
        """A server, past the name."""
        url = (of or self.primary).url
        if url not in self.servers:
            self.servers[url] = self.at(url)
        return self.servers[url]

    def at(self, url: str) -> Server:
        return Server(url, GROUP, GROUP, self.demo.options.partitions)

    # --- a step

    def begin(self, name: str) -> Note:
        """Waits for a quiet start. Raises TreeFailed."""
        self.run.wait_at_work(WARM_BATCHES)
        note = Note(
            name=name,
            began_ms=now_ms(),
            began_s=time.monotonic(),
            owners=self.locks(),
            recorded=self.recorded(),
            log_size=0 if self.run.producer is None else logs.size(self.run.producer.log),
        )
        self.run.say(f"step {name}")
        return note

    def heal(self, note: Note) -> None:
        """From now on the time to recover counts: all is undone, and what was restarted answers."""
        note.healed_s = time.monotonic()
        note.base = self.seen().ownership()

    def recover(
        self, note: Note, without: Collection[str] = (), seconds: float = RECOVER_S
    ) -> None:
        """Until every partition runs under the lock of whom the target names, and has committed.

        `without`: members that do not count. Leaves recovered_ms None when it takes too long.
        """
        if self.run.happens(lambda: self.is_back(note, without), seconds):
            note.recovered_ms = round((time.monotonic() - note.healed_s) * 1_000)
            self.run.say(f"step {note.name}: recovered after {note.recovered_ms} ms")
        else:
            self.run.say(f"step {note.name}: not recovered within {seconds:.0f} s")

    def is_back(self, note: Note, without: Collection[str]) -> bool:
        assert note.base is not None, "it was healed"
        try:
            return is_back(self.seen().ownership(), note.base, without)
        except StoreUnavailable:
            return False

    # --- what the check sees

    def content(self, of: EmbeddedRedis | None = None) -> Content:
        return self.seen(of).content()

    def content_of(self, folder: Path) -> Content:
        """What a dead server's folder holds, by a server of its own that reads it."""
        return content_of(folder, self.primary, lambda url: self.at(url).content())

    def locks(self) -> Mapping[Partition, tuple[str, int]]:
        return self.seen().ownership().locks

    def recorded(self) -> Mapping[str, Any]:
        return records_of(self.demo.parts.environment)

    def log_of(self, part: Process, since: int = 0) -> str:
        with part.log.open("rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace")

    # --- judgement

    def judge(self, note: Note) -> Step:
        """Once the producer is at work again, and all that was acknowledged is processed."""
        self.wait_producer(note)
        events = acknowledged(self.run.acknowledged)
        ends = self.wait_processed(note)
        now = self.content()
        whole = joined(self.past, *([note.past] if note.past else ()), now)
        left = now.ids(ends) if note.name in redis_judge.LOSING else None
        found = effects(set(events) - self.gone, whole, left)
        note.problems += found.faults[:3]
        at_locks = [*(note.past.events if note.past else ()), *now.events]
        happened = above(at_locks, note.owners)
        records, missing = settled_history(
            self.recorded,
            lambda: self.seen().ownership().locks,
            happened,
            note.recorded,
            self.run.pass_time,
        )
        self.past = whole
        self.gone |= set(found.destroyed)
        for text in missing[:5]:
            self.run.say(f"history: {text}")
        return Step(
            name=note.name,
            how=note.how,
            recovered_ms=note.recovered_ms,
            bound_ms=redis_judge.bound_of(note.name, TIMINGS, self.restore_ms(note)),
            lost=len(found.lost),
            doubled=len(found.doubled),
            destroyed=self.reported(note, records),
            destroyed_counted=len(found.destroyed),
            moves_without_cause=redis_judge.moves_without_cause(at_locks, note.owners, note.hurt),
            agents_ended=self.agents_ended(note),
            history_complete=not missing,
            problems=tuple(note.problems),
        )

    def reported(self, note: Note, records: Mapping[str, Any]) -> int | None:
        producer = self.run.producer
        log = "" if producer is None else self.log_of(producer, note.log_size)
        return redis_judge.reported(records["audit"][len(note.recorded["audit"]) :], log)

    def wait_producer(self, note: Note) -> None:
        if self.run.producer is None:
            return
        size = self.run.acknowledged.stat().st_size
        if not self.run.happens(lambda: self.run.acknowledged.stat().st_size > size, RECOVER_S):
            note.problems.append(f"the producer stored nothing for {RECOVER_S:.0f} s")
        self.run.pass_time(RESEND_S)

    def wait_processed(self, note: Note) -> Mapping[Partition, Offset]:
        """Until every partition has committed what its stream holds now: where it ends."""
        ends = self.seen().ends()

        def is_processed() -> bool:
            try:
                return self.seen().has_committed(ends)
            except StoreUnavailable:
                return False

        if not self.run.happens(is_processed, PROCESSED_S):
            note.problems.append(f"not every event was processed within {PROCESSED_S:.0f} s")
        return ends

    def agents_ended(self, note: Note) -> int:
        """Agents that ended although nobody struck them, so that they were started again."""
        return sum(
            consumer.started_ms > note.began_ms and consumer.name not in note.hurt
            for consumer in self.demo.consumers
        )

    def restore_ms(self, note: Note) -> float:
        files = sorted((self.demo.options.data / "logs").glob("consumer-*.log"))
        taken = [t for t in agent_logs.takeovers(files) if t.acquired_ms >= note.began_ms]
        return max((t.took_ms for t in taken), default=0.0)


def records_of(environment: Mapping[str, str]) -> Mapping[str, Any]:
    """What the product recorded, by a process that reads its database. Raises TreeFailed."""
    found: Mapping[str, Any] = ask("the database", environment, recorded.__name__, GROUP)
    return found


def is_back(now: Ownership, base: Ownership, without: Collection[str] = ()) -> bool:
    """Whether every partition runs under the lock of whom the newest target names, none of them of
    `without`, and has committed since.
    """
    owners = {p: member for p, (member, _) in now.locks.items()}
    return (
        len(owners) == len(now.commits) == len(now.running)
        and owners == now.target
        and now.epochs[0] == now.epochs[1]
        and not set(owners.values()) & set(without)
        and all(now.commits[p] != base.commits[p] for p in owners)
    )


def settled_history(
    read: Callable[[], Mapping[str, Any]],
    locks: Callable[[], Mapping[Partition, tuple[str, int]]],
    happened: Collection[LockEvent],
    before: Mapping[str, Any],
    pause: Callable[[float], None],
) -> tuple[Mapping[str, Any], list[str]]:
    """All that the product recorded, and what history lacks, once it had time to catch up."""
    tries = 0
    while True:
        held, records = locks(), read()
        rows = [
            Tenure(partition=p, member=m, fence=f, is_open=ended is None)
            for p, m, f, ended in records["tenures"]
        ]
        gaps = [Gap(*row) for row in records["gaps"][len(before["gaps"]) :]]
        missing = redis_judge.missing_in_history(happened, rows, held, gaps)
        tries += 1
        if not missing or tries == HISTORY_TRIES:
            return records, missing
        pause(HISTORY_WAIT_S)


def above(
    events: Iterable[LockEvent], owners: Mapping[Partition, tuple[str, int]]
) -> list[LockEvent]:
    """What happened at the locks after these were granted."""
    return [e for e in events if e.fence > owners.get(e.partition, ("", 0))[1]]
