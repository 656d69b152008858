"""A consumer without Spark: the same socket, scripts, state and fenced commit in a small process.

    evenkeel-agent --group G -- python -m agent.pipelines.light
    python -m agent.pipelines.load --stream S --keys 20 --rate 100 --form lines

State of a partition, key -> {"events": how many, "last_id": the highest id}. Every commit carries
the ids of its events. With EVENKEEL_LIGHT_LOG, a folder, each answer to a commit is a line of JSON
in a file of this process: when it was asked, by whom, under which fence, for what, the answer.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import msgspec
from msgspec.structs import replace

from agent.consumer.control import AgentLink, AgentUnreachable, monotonic_ms
from agent.consumer.in_hand import EXIT_LEASE, EXIT_NO_AGENT
from agent.ending import run_to_end
from agent.private import keep_private
from agent.state.errors import StateError
from agent.state.partition import PartitionState
from agent.state.restore import restore
from agent.store.door import StoreUnavailable, asked
from agent.store.events import EventStore, RawEntry
from agent.store.group import GroupStore
from assignment.errors import Fenced
from assignment.scripts import agent_side
from assignment.scripts.agent_side import BatchStart, CommitAnswer, CommitRequest
from assignment.types import START, Offset, Partition
from assignment.wire import ConsumerHealth, pack_changes, pack_ids

LOG_VARIABLE = "EVENKEEL_LIGHT_LOG"
BATCH_S = 0.1  # what a batch takes at least: a consumer that is stopped has one in hand
EVENTS_MAX = 4_000  # of one batch, of all partitions alike: what a consumer can do is bounded
TRY_AGAIN_S = 0.1
SAY_AGAIN_S = 5.0  # without a change: Redis may have forgotten
WATCH_EVERY_S = 0.02
Value = Mapping[str, int]
DECODER = msgspec.json.Decoder(dict[str, Any])


def main() -> int:
    keep_private()
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent gets it too, and asks to end
    name = f"light-{os.getpid()}"
    try:
        link = AgentLink.connect(spark_application_id=name, on_gone=ending.set)
    except AgentUnreachable as error:
        print(f"light: {error}", file=sys.stderr)
        return EXIT_NO_AGENT
    threading.Thread(target=end_with_lease, args=(link,), daemon=True).start()
    consumer = LightConsumer(link, ConsumerHealth(state="ready", spark_application_id=name))
    while not ending.is_set():
        try:
            consumer.turn()
        except (StoreUnavailable, Fenced):
            time.sleep(TRY_AGAIN_S)
    consumer.close()
    return 0


def end_with_lease(link: AgentLink) -> None:
    """When the agent is gone the batch in hand may take until its lease ends, and no longer."""
    link.gone.wait()
    while monotonic_ms() < link.lease_end_ms:
        time.sleep(WATCH_EVERY_S)
    os._exit(EXIT_LEASE)


def merged(old: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> dict[str, Value]:
    """The new values of the keys that have events, in their order."""
    values: dict[str, Value] = {}
    for event in events:
        key = event["key"]
        before = values.get(key) or old.get(key) or {"events": 0, "last_id": -1}
        last_id = max(before["last_id"], event["id"])
        values[key] = {"events": before["events"] + 1, "last_id": last_id}
    return values


@dataclass(frozen=True, slots=True)
class Batch:
    """Of one partition: what was read in (start.committed, end], and its values."""

    start: BatchStart
    end: Offset
    ids: Sequence[int]
    values: Mapping[str, Value]
    total: int  # applied before it

    def request(self, member: str) -> CommitRequest:
        return CommitRequest(
            partition=self.start.partition,
            member_id=member,
            fence=self.start.fence,
            from_offset=self.start.committed,
            to_offset=self.end,
            events=len(self.ids),
            base_total=self.total,
            changes=pack_changes(self.values),
            ids=pack_ids(self.ids),
            replication_id=self.start.replication_id,
        )


@dataclass(slots=True)
class LightConsumer:
    link: AgentLink
    health: ConsumerHealth
    groups: GroupStore = field(init=False)
    events: EventStore = field(init=False)
    log: TextIO | None = None
    states: dict[Partition, PartitionState] = field(default_factory=dict)
    claims: dict[Partition, int] = field(default_factory=dict)  # fence of what was restored
    say_again_s: float = 0.0  # monotonic

    def __post_init__(self) -> None:
        control = self.link.control
        self.groups = GroupStore.connect(
            control.redis_url, control.group, snapshots_below=control.snapshot_url
        )
        self.events = EventStore(self.groups.door)
        if folder := os.environ.get(LOG_VARIABLE):
            path = Path(folder) / f"{control.member}-{os.getpid()}.jsonl"
            self.log = path.open("a", buffering=1)

    def turn(self) -> None:
        """One batch of what the agent's member owns. Raises StoreUnavailable, Fenced."""
        control = self.link.control
        if time.monotonic() >= self.say_again_s:
            self.say()
        asked = agent_side.next_batch(control.speaker)
        starts = self.groups.run(asked) if self.link.may_process() else ()
        began_s = time.monotonic()
        batches = [b for start in starts if (b := self.read(start, EVENTS_MAX // len(starts)))]
        time.sleep(max(0.0, began_s + BATCH_S - time.monotonic()))
        if batches:
            self.events.settle({batch.start.partition for batch in batches})
            self.commit(control.member, batches, began_s)

    def say(self, **facts: Any) -> None:
        self.health = replace(self.health, **facts)
        self.groups.write_progress(self.link.control.speaker, self.health)
        self.say_again_s = time.monotonic() + SAY_AGAIN_S

    def read(self, start: BatchStart, events_max: int) -> Batch | None:
        """None: there is nothing new, or its state cannot be brought to where it starts."""
        partition = start.partition
        last = self.events.last_offset(partition)
        if last <= start.committed:
            return None
        try:
            state = self.state(start)
            if state.offset != start.committed:
                return None
            chunks = self.events.read(partition, start.committed, last, start.replication_id)
            end, events = first_of(chain.from_iterable(chunks), events_max)
            with state.reading() as reading:
                old, total = reading.get_many(event["key"] for event in events), reading.total
        except StateError as error:
            print(f"light: {partition}: {error}", file=sys.stderr, flush=True)
            return None
        ids = [event["id"] for event in events]
        return Batch(start, end, ids, merged(old, events), total)

    def state(self, start: BatchStart) -> PartitionState:
        """At the committed offset, restored once it was claimed under this fence."""
        partition = start.partition
        known = self.states.get(partition)
        if known is None or not known.is_there:
            self.forget(partition)
            control = self.link.control
            known = PartitionState.open(control.state_dir, control.group, partition)
            self.states[partition] = known
        is_new = self.claims.get(partition) != start.fence or known.offset != start.committed
        if is_new and self.groups.last_fence(partition) == start.fence:
            restore(self.groups, known, partition)
            self.claims[partition] = start.fence
        return known

    def forget(self, partition: Partition) -> None:
        self.claims.pop(partition, None)
        if state := self.states.pop(partition, None):
            state.close()

    def commit(self, member: str, batches: Sequence[Batch], began_s: float) -> None:
        """Asked again while the lease lasts: a reply may be lost."""
        requests = [batch.request(member) for batch in batches]
        asked_ms = time.time_ns() // 1_000_000
        answers = asked(
            lambda: self.groups.commit_many(requests),
            TRY_AGAIN_S,
            lambda _: self.link.may_process(),
        )
        applied = 0
        for batch, answer in zip(batches, answers, strict=True):
            self.note(member, asked_ms, batch, answer)
            if answer.applied:
                self.apply(batch, answer)
                applied += len(batch.ids)
        now_ms = time.time_ns() // 1_000_000
        rows = self.health.rows + applied
        took_s = max(time.monotonic() - began_s, 0.001)
        self.say(
            batch=self.health.batch + 1,
            batch_at_ms=now_ms,
            batch_ms=round(took_s * 1000),
            rows=rows,
            rows_per_second=round(applied / took_s, 1),
        )

    def apply(self, batch: Batch, answer: CommitAnswer) -> None:
        partition, start = batch.start.partition, batch.start
        try:
            self.states[partition].apply_changes(
                start.committed,
                batch.end,
                batch.values,
                total=batch.total + len(batch.ids),
                changelog_id=answer.changelog_id or None,
                fence=start.fence,
            )
        except StateError:
            self.forget(partition)

    def note(self, member: str, asked_ms: int, batch: Batch, answer: CommitAnswer) -> None:
        if self.log is None:
            return
        line = {
            "asked_ms": asked_ms,
            "member": member,
            "partition": str(batch.start.partition),
            "fence": batch.start.fence,
            "from": str(batch.start.committed),
            "to": str(batch.end),
            "events": len(batch.ids),
            "answer": answer.result.value,
        }
        self.log.write(json.dumps(line) + "\n")

    def close(self) -> None:
        for partition in tuple(self.states):
            self.forget(partition)
        self.link.close()


def first_of(entries: Iterable[RawEntry], events_max: int) -> tuple[Offset, list[dict[str, Any]]]:
    """The events of whole entries, as many as there may be, of one entry at least; and where they
    end.
    """
    end, events = START, list[dict[str, Any]]()
    for entry in entries:
        more = events_of(entry)
        if events and len(events) + len(more) > events_max:
            break
        end = Offset.parse(entry[0].decode())
        events += more
    return end, events


def events_of(entry: Sequence[Any]) -> list[dict[str, Any]]:
    """Of one entry in the form `lines` or `json`."""
    return DECODER.decode_lines(entry[1][1])


if __name__ == "__main__":
    run_to_end(main)
