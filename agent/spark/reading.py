"""The ranges of a batch read in Spark's tasks: events for the pipeline, counts for the driver."""

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from agent.spark.decode import RAW_BYTES_MAX, Decoder, RawEntry, batches
from agent.spark.pipeline import PARTITION_COLUMN
from agent.spark.replays import Unread, read_again
from agent.store.door import StoreUnavailable, Timeouts, asked
from agent.store.events import EventStore, KeptText
from assignment.errors import Fenced
from assignment.scripts.dead_letters import DeadLetter
from assignment.types import Offset, Partition, Range

ROWS_PER_ARROW_BATCH = 10_000
DEAD_PER_RANGE_MAX = 1_000  # a commit carries no more: the rest of the range is read again after it
READ_TRIES = 240  # with TRY_AGAIN_S between them: a minute, while Redis reads its file
TRY_AGAIN_S = 0.25


class Counted(msgspec.Struct):
    """What the task that read a range tells the driver, beside the events: how many it counted
    (malformed ones too), how far it got, why it stopped before the end, and the malformed events.
    """

    events: int
    to_offset: str
    halted_at: str = ""  # the malformed entry that it stopped before, under the policy halt
    halted_why: str = ""
    dead: list[DeadLetter] = []
    lowest: str = ""  # entry of the letters that it replayed

    @property
    def end(self) -> Offset:
        return Offset.parse(self.to_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask(InputPartition):
    """Everything that changes from batch to batch; one Spark task reads all its ranges."""

    ranges: tuple[Range, ...]
    batch: str  # the name of the batch, in every name under which its counts are stored
    halt: bool  # stop a range at its first malformed event
    warm_up: bool = False  # leaves nothing behind
    skip: str = ""  # not read as events but passed as dead letters, for this reason
    replay: tuple[tuple[str, str], ...] = ()  # dead letters that are read, each with who asked
    group: str = ""  # whose letters they are
    value: int = 0  # its number


def read_task(
    task: ReadTask, options: Mapping[str, str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """All events of the task's ranges, then what was counted: to Redis, for the driver."""
    if not task.ranges:  # warm-up on an empty stream, or of more tasks than ranges
        yield pa.RecordBatch.from_pydict({name: [] for name in schema.names}, schema=schema)
        return
    events = _event_store(options["redis_url"])
    decoder = Decoder(schema.remove(schema.get_field_index(PARTITION_COLUMN)))
    counted: dict[str, Counted] = {}
    tables = (
        _with_partition(table, one.partition, schema)
        for one in task.ranges
        for table in _read_range(events, decoder, one, task, counted)
    )
    try:
        yield from batches(tables, schema, ROWS_PER_ARROW_BATCH)
    except Fenced:
        return  # what is not counted is not committed
    if task.warm_up:
        return
    packed = {name: msgspec.msgpack.encode(value) for name, value in counted.items()}
    tries = count(1)
    store = partial(events.store_counts, options["group"], options["member"], packed)
    asked(store, TRY_AGAIN_S, lambda _: next(tries) < READ_TRIES)


def _read_range(
    events: EventStore, decoder: Decoder, one: Range, task: ReadTask, counted: dict[str, Counted]
) -> Iterator[pa.Table]:
    """The range's tables; leaves in `counted` what was counted under the range's name."""
    total = Counted(0, str(one.from_offset))
    counted[one.name(task.batch)] = total
    if task.replay:  # its events were counted when they became letters
        unread = Unread([], one.to_offset)
        yield from read_again(decoder, _letters(events, one, task), unread)
        total.dead, total.lowest = unread.letters, str(unread.lowest)
        total.to_offset = str(one.to_offset)
        return
    if task.skip:
        _pass(events, decoder, one, task.skip, total)
        return
    dead_max = 0 if task.halt else DEAD_PER_RANGE_MAX
    for chunk in _read_again(events, one):
        decoded = decoder.decode(chunk)
        kept = chunk
        if len(total.dead) + len(decoded.dead) > dead_max:
            room = dead_max - len(total.dead)
            kept = _before_too_many(chunk, decoded.dead, room, at_least=0 if task.halt else 1)
            if task.halt:
                first = decoded.dead[0]
                total.halted_at, total.halted_why = first.entry_id, first.reason
            decoded = decoder.decode(kept)
        total.events += decoded.events
        total.dead += decoded.dead
        if kept:
            total.to_offset = _id(kept[-1])
        yield from decoded.tables
        if len(kept) < len(chunk):
            return
    total.to_offset = str(one.to_offset)


def _pass(events: EventStore, decoder: Decoder, one: Range, why: str, total: Counted) -> None:
    """Counts the events of what is skipped, and gives none of them to the pipeline."""
    for chunk in _read_again(events, one):
        total.events += decoder.decode(chunk).events
        raws = (b" ".join(fields)[:RAW_BYTES_MAX] for _, fields in chunk)
        total.dead += [
            DeadLetter(why, _id(entry), None, raw) for entry, raw in zip(chunk, raws, strict=True)
        ]
    total.to_offset = str(one.to_offset)


def _letters(
    events: EventStore, one: Range, task: ReadTask
) -> Iterator[tuple[str, KeptText, RawEntry | None]]:
    """Those that are there, each with who asked for it and its entry."""
    tries = count(1)
    for letter, actor in task.replay:
        look = partial(events.letter, task.group, one, Offset.parse(letter))
        found = asked(look, TRY_AGAIN_S, lambda _: next(tries) < READ_TRIES)
        if found is not None:
            yield actor, *found


def _before_too_many(
    chunk: Sequence[RawEntry], dead: Sequence[DeadLetter], room: int, at_least: int
) -> Sequence[RawEntry]:
    """The entries before the one with the malformed event that there is no room for."""
    first_out = dead[room].entry_id
    before = next(i for i, entry in enumerate(chunk) if _id(entry) == first_out)
    return chunk[: max(before, at_least)]


def _id(entry: RawEntry) -> str:
    return str(entry[0].decode())


def _with_partition(table: pa.Table, partition: Partition, schema: pa.Schema) -> pa.Table:
    numbers = pa.repeat(pa.scalar(partition.number, pa.int32()), table.num_rows)
    columns = [numbers if name == PARTITION_COLUMN else table.column(name) for name in schema.names]
    return pa.table(columns, schema=schema)


def _read_again(events: EventStore, one: Range) -> Iterator[Sequence[RawEntry]]:
    """All chunks of the range; goes on where it was when Redis went away for a moment."""
    start = one.from_offset
    tries = 0
    while True:
        try:
            for chunk in events.read(one.partition, start, one.to_offset, one.replication_id):
                yield chunk
                start = Offset.parse(_id(chunk[-1]))
                tries = 0
            return
        except StoreUnavailable:
            tries += 1
            if tries >= READ_TRIES:
                raise
            time.sleep(TRY_AGAIN_S)


_stores: dict[str, EventStore] = {}


def _event_store(url: str) -> EventStore:
    """One connection per worker process: workers are used again from batch to batch."""
    if url not in _stores:
        _stores[url] = EventStore.connect(url, Timeouts(answer_s=10.0))
        gc.freeze()  # Spark's worker collects garbage after each task: 30 ms for what was imported
    return _stores[url]
