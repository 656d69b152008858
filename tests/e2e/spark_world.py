"""What the Spark tests share: an owner with real locks, a stream, and a consumer in a thread."""

import io
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from agent.consumer.control import monotonic_ms
from agent.spark.pipeline import Pipeline
from agent.spark.runner import Consumer
from agent.state.partition import PartitionState
from agent.store.cluster import door_to
from agent.store.door import ScriptCall
from agent.store.events import Append, AppendResult, EventStore, Packed
from assignment.scripts import agent_side, dead_letters
from assignment.scripts.agent_side import Granted, StateChange
from assignment.scripts.dead_letters import DeadLetter
from assignment.types import GroupSettings, HeldState, Offset, Partition
from assignment.wire import (
    ChangelogEntry,
    ConsumerHealth,
    ControlMessage,
    GroupKeys,
    StreamKeys,
    unpack_changes,
)
from tests.contract.world import World

DEADLINE_S = 240.0  # Spark on a loaded machine
LOCK_MS = 3_600_000  # no lock ends by chance


def until(true: Callable[[], Any], what: str = "", deadline_s: float = DEADLINE_S) -> Any:
    """What `true` gave once it was true; an AssertionError names what did not come."""
    end = time.monotonic() + deadline_s
    while not (found := true()):
        assert time.monotonic() < end, f"not within {deadline_s} s: {what or true}"
        time.sleep(0.01)
    return found


@dataclass
class Link:
    """An agent that is always there; `lease_end_ms` and `gone` are the test's to set."""

    control: ControlMessage
    settings: GroupSettings
    lease_end_ms: int = 2**62
    gone: threading.Event = field(default_factory=threading.Event)

    def may_process(self) -> bool:
        return monotonic_ms() < self.lease_end_ms


class SparkWorld:
    """One group on its own stream of `partitions` partitions, all owned and running at `m1`."""

    def __init__(self, url: str, name: str, folder: Path, partitions: int = 2) -> None:
        self.url, self.name, self.folder = url, name, folder
        self.world = World(door_to(url), name)
        self.store = self.world.store
        self.events = EventStore.connect(url)
        self.partitions = [Partition(name, n) for n in range(partitions)]
        self.events.ensure(name, partitions)
        self.settings = GroupSettings(
            stream=name, partitions=partitions, trimming=False, latency_goal_ms=0
        )
        values = asdict(self.settings)
        self.world.configure(**values)
        for member in ("m1", "m2"):
            self.world.join(member)
        self.world.set_incarnation(1)
        self.fences: dict[Partition, int] = {}
        self._sequences: dict[Partition, int] = {}
        self.give("m1", self.partitions)

    def give(self, member: str, partitions: Sequence[Partition]) -> None:
        """Assigned, acquired and running; nothing else changes hands."""
        others = {p: f for p, f in self.fences.items() if p not in partitions}
        rows = {"m1": set(others) if member == "m2" else set(self.partitions), "m2": set()}
        rows[member] |= set(partitions)
        self.world.assign(**rows)
        meta = self.store.target(member).meta
        answers = self.store.acquire(
            member, LOCK_MS, meta.mode_epoch, meta.incarnation, list(partitions)
        )
        for answer in answers:
            assert isinstance(answer, Granted), answer
            self.fences[answer.partition] = answer.fence
            change = StateChange(
                answer.partition, answer.fence, HeldState.RESTORING, HeldState.RUNNING
            )
            assert self.store.run(agent_side.set_state(member, [change])) == (True,)

    def take_over(self, partition: Partition) -> None:
        """m1's lock is lost without its knowing, as after a long pause; m2 has a new fence."""
        held = {partition: self.store.owned("m1")[partition]}
        assert self.store.run(agent_side.release("m1", held)) == (True,)
        del self.fences[partition]
        self.give("m2", [partition])

    def append(self, partition: Partition, *entries: Packed) -> Offset:
        """Appends as a producer does; the id of the last entry."""
        number = self._sequences.get(partition, 0) + 1
        self._sequences[partition] = number
        done = self.events.append("test", [Append(partition, number, entries)])
        assert done == [AppendResult.DONE]
        return self.end(partition)

    def end(self, partition: Partition) -> Offset:
        return self.events.last_offset(partition)

    def committed(self) -> list[Offset]:
        return list(self.store.committed(self.partitions).values())

    def all_committed(self) -> bool:
        return self.committed() == [self.end(p) for p in self.partitions]

    def changelog(self, partition: Partition) -> list[ChangelogEntry]:
        return list(self.store.read_changelog(partition, "0-0", 10_000).entries)

    def state(self, partition: Partition) -> dict[str, Any]:
        """As the changelog gives it."""
        values: dict[str, Any] = {}
        for entry in self.changelog(partition):
            values |= unpack_changes(entry.changes)
        return {key: value for key, value in values.items() if value is not None}

    def local_state(self, partition: Partition) -> tuple[Offset, dict[str, Any]]:
        """As LMDB has it; only while no consumer of this process has it open."""
        state = PartitionState.open(self.folder / "state", self.name, partition)
        try:
            with state.reading() as reading:
                return reading.offset, dict(reading.items())
        finally:
            state.close()

    def dead_letters(self, partition: Partition) -> list[DeadLetter]:
        raw = self.store.door.ask("XRANGE", GroupKeys(self.name).dead(partition), "-", "+")
        rows = [dict(zip(f[::2], f[1::2], strict=True)) for _, f in raw]
        return [
            DeadLetter(
                r[b"reason"].decode(),
                r[b"entry"].decode(),
                int(r[b"index"]) if r[b"index"] else None,
                r[b"raw"],
            )
            for r in rows
        ]

    def replay(self, partition: Partition) -> None:
        """All of its letters, as a person asks for it."""
        raw = self.store.door.ask("XRANGE", GroupKeys(self.name).dead(partition), "-", "+")
        letters = [(partition, Offset.parse(letter.decode())) for letter, _ in raw]
        answers = self.store.run(dead_letters.replay(letters, "ann"))
        assert set(answers) == {dead_letters.Replay.ASKED}
        key = StreamKeys(self.name).entries(partition.number)
        self.store.door.run(ScriptCall("make_room", [key], [str(len(letters))]))

    def replays(self, partition: Partition) -> bool:
        """Whether letters still wait."""
        return bool(self.store.door.ask("HEXISTS", GroupKeys(self.name).replays, str(partition)))

    def health(self) -> ConsumerHealth | None:
        return self.store.progress("m1")

    def control(self) -> ControlMessage:
        return ControlMessage(
            group=self.name,
            member="m1",
            redis_url=self.url,
            state_dir=str(self.folder / "state"),
            snapshot_url=str(self.folder / "snapshots"),
            settings=self.settings,
            lease_end_ms=2**62,
        )

    def link(self) -> Link:
        return Link(self.control(), self.settings)

    @contextmanager
    def consuming(
        self, pipeline: Pipeline, session: Any, link: Link | None = None
    ) -> Iterator[Any]:
        """A consumer in a thread; ended in order. An error in it fails the test."""
        stop = threading.Event()
        consumer = Consumer(pipeline, link or self.link(), session, stop)  # type: ignore[arg-type]
        errors: list[BaseException] = []

        def process() -> None:
            try:
                consumer.process()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=process, daemon=True)
        thread.start()
        try:
            yield consumer
        finally:
            stop.set()
            thread.join(timeout=DEADLINE_S)
            consumer.close()
        assert not thread.is_alive()
        assert not errors, errors


def one(**event: Any) -> Packed:
    """A single entry with a JSON field."""
    text = json.dumps(event).encode()
    return Packed((b"json", text), 1, len(text))


def fields(**event: str) -> Packed:
    flat = tuple(text.encode() for pair in event.items() for text in pair)
    return Packed(flat, 1, sum(map(len, flat)))


def lines(*events: Any) -> Packed:
    text = b"\n".join(e if isinstance(e, bytes) else json.dumps(e).encode() for e in events)
    return Packed((b"lines", text), len(events), len(text))


def arrow(*events: dict[str, Any]) -> Packed:
    table = pa.Table.from_pylist(list(events))
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return Packed((b"arrow", out.getvalue()), len(events), len(out.getvalue()))


def raw(name: bytes, value: bytes) -> Packed:
    return Packed((name, value), 1, len(value))
