"""The streaming source `evenkeel`: what this member owns, from the committed offset on.

Spark's offset is the plan of one batch, {"n": 7, "p": {"3": [from, to, fence]}, "halt": a malformed
event stops its partition, "tasks": how many Spark tasks read it}. One with "warm_up" is read and
never committed (agent/spark/warm_up.py), one with "alone" has entries of one suspect, one with
"skip" passes an entry (agent/spark/isolation.py). The committed offsets in Redis are the truth;
Spark's own start offset is ignored, so its checkpoint may vanish.
Runs in three places: the planner process beside the driver, the driver, and Spark's tasks.
"""

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from agent.spark.decode import RAW_BYTES_MAX, Decoder, RawEntry, batches
from agent.spark.pipeline import PARTITION_COLUMN
from agent.spark.planner import Planner
from agent.spark.ranges import batch_name, plan_of
from agent.store.door import StoreUnavailable, Timeouts, asked
from agent.store.events import EventStore
from assignment.errors import Fenced
from assignment.scripts.agent_side import DeadLetter
from assignment.types import Offset, Partition, Range

FORMAT = "evenkeel"
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
    value: int = 0  # its number


class EvenkeelSource(DataSource):
    """Options: redis_url, group, member, stream, folder (of `Shared`), run (a name that no query
    had before), tasks (Spark tasks of a batch at most). The schema is the event's columns and
    `partition`.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> "EvenkeelReader":
        return EvenkeelReader(dict(self.options), schema)


class EvenkeelReader(DataSourceStreamReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = dict(options)
        self._stream = options["stream"]
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._planner: Planner | None = None  # not pickled with anything open in it

    def initialOffset(self) -> dict[str, Any]:
        return {"n": 0, "p": {}}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The plan of the next batch, or `start` when there is nothing to do. The bounds of a batch
        are its own: `limit` is always "all that is available".
        """
        if self._planner is None:
            self._planner = Planner(self._options)
        return self._planner.next_batch(int(start["n"]) + 1) or start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Uses `end` only, so that a batch run again reads the same."""
        if start == end:
            return []
        ranges = plan_of(end, self._stream)
        warm_up, tasks = bool(end.get("warm_up")), int(end["tasks"])
        count = tasks if warm_up else min(tasks, len(ranges))
        return [
            ReadTask(
                ranges=tuple(ranges[n::count]),
                batch=batch_name(self._options["run"], end),
                halt=bool(end["halt"]),
                warm_up=warm_up,
                skip=str(end.get("skip", "")),
                value=n,
            )
            for n in range(count)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReadTask)
        return read_task(partition, self._options, self._schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}


# --- in Spark's tasks


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
        total.dead += [DeadLetter(why, _id(e), 0, raw) for e, raw in zip(chunk, raws, strict=True)]
    total.to_offset = str(one.to_offset)


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
