"""Events in Redis: appended by producers, bounded by a planner, read by Spark's tasks.

Works on many partitions in one trip where it can. Knows entries and ids, not what is in
them. Raises StoreUnavailable (ask again) as the other stores do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

from agent.store.cluster import door_to
from agent.store.door import Door, ScriptCall, StoreUnavailable, Timeouts, pairs
from assignment.errors import Fenced, InvalidInput
from assignment.scripts.values import Arguments, Raw
from assignment.types import PARTITIONS_MAX, START, Offset, Partition, Range, valid_name
from assignment.wire import GroupKeys, StreamKeys

FIRST_CHUNK_ENTRIES = 16  # tells how large entries are
CHUNK_ENTRIES = 5_000  # of one XRANGE; of larger entries as many as fit in CHUNK_BYTES
CHUNK_BYTES = 2 * 2**20
LOOK_AT_EVERY = 8  # entries of a chunk, to guess how large the next ones are
COUNTS_EXPIRE_MS = 600_000  # longer than any batch may take
POINTS_MAX = 512  # index points looked at for one bound: half a million events


class AppendResult(StrEnum):
    DONE = "done"
    ALREADY = "already"  # this sequence was there before
    GAP = "gap"  # a batch before this one is missing: Redis lost it


@dataclass(frozen=True, slots=True)
class Packed:
    """What one XADD writes: a flat list of names and values, the events in it, its bytes."""

    fields: tuple[bytes, ...]
    events: int
    size: int


@dataclass(frozen=True, slots=True)
class Append:
    """One batch of a producer for one partition; `sequence` counts 1, 2, 3 ... per partition."""

    partition: Partition
    sequence: int
    entries: Sequence[Packed]
    note: str = ""  # kept beside the sequence, in the same step


class Bound(NamedTuple):
    """`to` = `from` when nothing is known above it; `probe`: uncounted entries may lie above."""

    to_offset: Offset
    probe: bool
    total: int | None  # events of the partition up to `to`, where they are counted


class Produced(NamedTuple):
    """How far a producer has got in one partition."""

    sequence: int
    note: str


RawEntry = Sequence[Raw]  # [id, [name, value, name, value ...]], all bytes
KeptText = Mapping[str, bytes]  # fields of a dead letter: reason, entry, index, raw
LETTER_FIELDS = ("reason", "entry", "index", "raw")


class EventStore:
    def __init__(self, door: Door) -> None:
        self.door = door

    @classmethod
    def connect(cls, url: str, timeouts: Timeouts | None = None) -> Self:
        """Raises InvalidInput: not a URL of Redis. Connects with the first call."""
        return cls(door_to(url, timeouts))

    def close(self) -> None:
        self.door.close()

    def partitions(self, stream: str) -> int:
        """Raises InvalidInput: no such stream, or its meta holds no number."""
        meta = StreamKeys(valid_name("stream", stream)).meta
        stored = self.door.ask("HGET", meta, "partitions")
        if stored is None:
            raise InvalidInput(f"stream {stream!r} is not there: {meta} has no partitions")
        if not stored.isdigit() or not 1 <= int(stored) <= PARTITIONS_MAX:
            raise InvalidInput(f"{meta} says {stored!r} partitions")
        return int(stored)

    def last_offset(self, partition: Partition) -> Offset:
        """Of the last entry; START when there is none."""
        raw = self.door.ask("XREVRANGE", _keys(partition)[0], "+", "-", "COUNT", 1)
        return _last(raw) if raw else START

    # --- producers

    def ensure(self, stream: str, partitions: int) -> None:
        """Makes the stream. Raises InvalidInput: it is there with another number of partitions."""
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise InvalidInput(f"partitions {partitions} is not within 1 and {PARTITIONS_MAX}")
        meta = StreamKeys(valid_name("stream", stream)).meta
        if self.door.ask("HGET", meta, "partitions") is None:  # a producer's user may only look
            self.door.ask("HSETNX", meta, "partitions", partitions)
        if (there := self.partitions(stream)) != partitions:
            raise InvalidInput(f"stream {stream!r} has {there} partitions, not {partitions}")

    def append(self, producer: str, batches: Sequence[Append]) -> list[AppendResult]:
        """Per batch. After StoreUnavailable ask again with the same batches."""
        calls = [
            ScriptCall(
                "append",
                _keys(batch.partition),
                [producer, str(batch.sequence), batch.note, *_arguments(batch.entries)],
            )
            for batch in batches
        ]
        answers = self.door.run_many(calls)
        return [AppendResult(answer[0].decode()) for answer in answers]

    def produced(self, producer: str, partition: Partition) -> Produced:
        stored = self.door.ask("HGET", _keys(partition)[1], f"p:{producer}") or b"0 0-0 "
        sequence, _, rest = stored.decode().partition(" ")
        return Produced(int(sequence), rest.partition(" ")[2])

    # --- planner

    def bounds(
        self, starts: Sequence[tuple[Partition, Offset]], events_max: int, bytes_max: int
    ) -> list[Bound]:
        """How far a batch may read from each start within `events_max` and `bytes_max` each."""
        limits = [str(events_max), str(bytes_max), str(POINTS_MAX)]
        calls = [ScriptCall("bound", _keys(p), [str(offset), *limits]) for p, offset in starts]
        return [
            Bound(Offset.parse(to.decode()), how == b"probe", int(total) if total else None)
            for to, total, how in self.door.run_many(calls)
        ]

    def ids(self, partition: Partition, after: Offset, entries_max: int) -> list[Offset]:
        """Of the next `entries_max` entries."""
        raw = self.door.ask("XRANGE", _keys(partition)[0], f"({after}", "+", "COUNT", entries_max)
        return [Offset.parse(entry[0].decode()) for entry in raw]

    def is_gap_after(self, partition: Partition, offset: Offset) -> bool:
        """Whether the next id is no entry's, and never will be."""
        call = ScriptCall("appended", _keys(partition)[:2], [str(offset)])
        *_, waits, last = self.door.run(call)
        is_past = bool(last) and Offset.parse(last.decode()) > offset
        return is_past and waits.decode() != str(offset.next)

    def latest(self, partition: Partition, entries: int) -> tuple[Offset, Offset]:
        """(after, last) of the newest `entries` entries; the same offset twice when there is none.

        What was trimmed before them is not missed: `after` is START then.
        """
        key = _keys(partition)[0]
        raw = self.door.ask("XREVRANGE", key, "+", "-", "COUNT", entries + 1)
        if not raw:
            return START, START
        return (_last(raw) if len(raw) > entries else START), Offset.parse(raw[0][0].decode())

    def wait(self, ends: Sequence[tuple[Partition, Offset]], timeout_ms: int) -> None:
        """Returns when an entry lies above one of the ends, at the latest after `timeout_ms`."""
        self.door.wait_any({_keys(one)[0]: str(offset) for one, offset in ends}, timeout_ms)

    def settle(self, partitions: Iterable[Partition]) -> None:
        """Before a batch of what was seen of them: its offsets lie with the group, and if these
        outlived the events, new ones could have ids that are committed, or be the same again.
        Raises StoreUnavailable.
        """
        self.door.settle([_keys(partition)[0] for partition in partitions])

    # --- tasks

    def read(
        self, partition: Partition, start: Offset, end: Offset, replication_id: str
    ) -> Iterator[Sequence[RawEntry]]:
        """Entries in (start, end] in chunks, oldest first. Raises Fenced (`demand`)."""
        self.demand(replication_id)
        key, count, after = _keys(partition)[0], FIRST_CHUNK_ENTRIES, start
        while after < end:
            chunk = self.door.ask("XRANGE", key, f"({after}", str(end), "COUNT", count)
            if chunk:
                yield chunk
            if len(chunk) < count:
                return
            after = _last(chunk)
            looked_at = chunk[::LOOK_AT_EVERY]
            size = sum(len(value) for _, fields in looked_at for value in fields)
            count = max(1, min(CHUNK_ENTRIES, CHUNK_BYTES * len(looked_at) // max(size, 1)))

    def letter(
        self, group: str, of: Range, letter: Offset
    ) -> tuple[KeptText, RawEntry | None] | None:
        """A dead letter and its entry, if that is kept; None: the letter is not there. Raises
        Fenced (`demand`).
        """
        self.demand(of.replication_id)
        key = GroupKeys(group).dead(of.partition)
        found = self.door.ask("XRANGE", key, str(letter), str(letter))
        if not found:
            return None
        fields = {name.decode(): value for name, value in pairs(found[0][1])}
        text = {name: fields.get(name, b"") for name in LETTER_FIELDS}
        entry = text["entry"].decode()
        kept = self.door.ask("XRANGE", _keys(of.partition)[0], entry, entry)
        return text, kept[0] if kept else None

    def demand(self, replication_id: str) -> None:
        """What is read next comes from the primary under that id, or from a later one, which then
        refuses the commit; "" demands nothing. Who only reads hears of no demotion. In a Redis
        Cluster the id is that of the group's node; any primary has the events (`settle`), and a
        replica refers to it.

        Raises StoreUnavailable and Fenced; the next call connects anew.
        """
        if self.door.in_cluster:
            return
        info = self.door.ask("INFO", "replication") if replication_id else b""
        if b"role:slave" in info:
            self.door.close()
            raise StoreUnavailable("it is a replica, which may lack events of the batch")
        if replication_id and f"master_replid:{replication_id}".encode() not in info:
            self.door.close()
            raise Fenced("the batch was planned from another server than this one")

    def store_counts(self, group: str, member_id: str, counts: Mapping[str, bytes]) -> None:
        """What a task counted while it read; the same task run again writes the same."""
        key = GroupKeys(group).counts(member_id)
        flat = [value for pair in counts.items() for value in pair]
        self.door.ask_together((("HSET", key, *flat), ("PEXPIRE", key, COUNTS_EXPIRE_MS)))

    def take_counts(self, group: str, member_id: str, names: Sequence[str]) -> dict[str, bytes]:
        """What the tasks of a batch counted, by name; whatever else was there is forgotten."""
        key = GroupKeys(group).counts(member_id)
        values, _ = self.door.ask_together((("HMGET", key, *names), ("DEL", key)))
        return {name: v for name, v in zip(names, values, strict=True) if v is not None}


def _last(chunk: Sequence[RawEntry]) -> Offset:
    return Offset.parse(chunk[-1][0].decode())


def _keys(partition: Partition) -> tuple[str, str, str]:
    keys, number = StreamKeys(partition.stream), partition.number
    return keys.entries(number), keys.producers(number), keys.index(number)


def _arguments(entries: Iterable[Packed]) -> Arguments:
    arguments: Arguments = []
    for entry in entries:
        arguments += [str(entry.events), str(entry.size), str(len(entry.fields)), *entry.fields]
    return arguments
