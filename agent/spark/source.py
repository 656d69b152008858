"""The streaming source `evenkeel`: what this member owns, from the committed offset on.

Spark's offset is the plan of one batch, {"n": 7, "p": {"3": [from, to, fence]}, "halt": a malformed
event stops its partition, "tasks": how many Spark tasks read it}. One with "warm_up" is read and
never committed (agent/spark/warm_up.py), one with "alone" has entries of one suspect, one with
"skip" passes an entry, one with "replay" has dead letters, each with who asked for it, and no entry
(agent/spark/isolation.py). The committed offsets in Redis are the truth;
Spark's own start offset is ignored, so its checkpoint may vanish.
Runs in three places: the planner process beside the driver, the driver, and Spark's tasks.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from agent.spark import isolation
from agent.spark.isolation import Alone
from agent.spark.ranges import batch_name, plan_from, plan_of, range_of
from agent.spark.reading import ReadTask, read_task
from agent.spark.replays import SKIPPED
from agent.spark.shared import Shared, Troubles
from agent.spark.sink_start import SinkStart
from agent.spark.warm_up import latest_ranges, tasks_of
from agent.store.door import StoreUnavailable
from agent.store.events import Bound, EventStore
from agent.store.group import GroupStore
from assignment.errors import Fenced, InvalidInput
from assignment.scripts import agent_side
from assignment.scripts import replays as replaying
from assignment.scripts.agent_side import BatchStart
from assignment.types import Offset, Partition, Range, speaker_of

FORMAT = "evenkeel"
EVENTS_PER_RANGE_MIN = 1_000  # one point of a stream's index
BATCH_BYTES_MAX = 64 * 2**20
PROBE_ENTRIES = 1_000  # of a stream that no producer library counted, per partition and batch
PROBE_STEPS_MAX = 8
WAIT_PARTITIONS_MAX = 256  # more streams than this are polled, not waited for
ONE_TASK_EVENTS = 20_000  # so few are faster in one task than with a shuffle between two
IDLE_WAIT_MS = 100  # how long a planner with nothing to do waits; a revoke waits as long


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
                replay=tuple((letter, actor) for letter, actor in end.get("replay", ())),
                group=self._options["group"],
                value=n,
            )
            for n in range(count)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReadTask)
        return read_task(partition, self._options, self._schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}


class Planner:
    """Decides what the next batch reads. Asked only when the batch before it is finished."""

    def __init__(self, options: Mapping[str, str]) -> None:
        member = options["member"]
        self._speaker = speaker_of(member, options.get("process", ""))
        self._tasks = int(options["tasks"])
        self._stream = options["stream"]
        self._groups = GroupStore.connect(options["redis_url"], options["group"])
        self._events = EventStore.connect(options["redis_url"])
        folder = Path(options["folder"])
        self._shared = Shared(folder)
        self._sink = SinkStart.handed_over(folder, self._groups, member)
        self._halt = False
        self._turns = isolation.Turns()
        self._totals: dict[Partition, tuple[Offset, int]] = {}  # events up to the last bound
        self._ends: dict[Partition, Offset] = {}  # behind which letters are replayed first

    def next_batch(self, number: int) -> dict[str, Any] | None:
        """Spark's next offset; None when there is nothing to do, now or any more."""
        left = self._shared.get("warm_up")
        if left and not self._shared.get("stopping"):
            return self._planned(self._warm_up(number, left))
        ranges, events = self._next_ranges()
        if not ranges:
            return None
        if isinstance(ranges, Alone):
            skip = ranges.skip
            why = f"{SKIPPED}{skip.actor}: {skip.reason}" if skip else ""
            letters = [[str(one.at), one.actor] for one in ranges.letters]
            alone = {"alone": ranges.entries, "skip": why, "replay": letters}
            return self._planned({**plan_from(number, [ranges.one]), **alone})
        tasks = 1 if events is not None and events <= ONE_TASK_EVENTS else self._tasks
        return self._planned({**plan_from(number, ranges), "halt": self._halt, "tasks": tasks})

    def _warm_up(self, number: int, left: int) -> dict[str, Any]:
        tasks = tasks_of(left, self._tasks)
        try:
            ranges = latest_ranges(self._events, self._stream)
        except (StoreUnavailable, InvalidInput):  # a batch without events warms up too
            ranges = []
        return {**plan_from(number, ranges), "tasks": tasks, "warm_up": left}

    def _planned(self, plan: dict[str, Any]) -> dict[str, Any]:
        self._shared.write_plan(plan["n"], plan)
        return plan

    def _next_ranges(self) -> tuple[list[Range] | Alone, int | None]:
        """What to read and how many events that is, if known; waits a little for something."""
        self._shared.set("polls", self._shared.get("polls") + 1)
        if self._must_not_plan():
            return self._nothing()
        try:
            return self._found(self._free())
        except (StoreUnavailable, Fenced):
            self._groups.close()  # it may lead to a server that the name has left
            return self._nothing()

    def _found(self, free: Sequence[BatchStart]) -> tuple[list[Range] | Alone, int | None]:
        if (alone := isolation.skipped(free, self._events.ids)) is not None:
            return alone, None
        readable = self._not_held_back(free)
        rest, replays = self._without_replays(isolation.others(readable))
        found = self._bounded(rest)
        there = bool(found[0])
        alone = self._turns.alone(readable, self._events.ids, replays, others_have_some=there)
        if alone is not None or there:
            return (alone, None) if alone is not None else found
        if not rest or len(rest) > WAIT_PARTITIONS_MAX:
            return self._nothing()
        self._events.wait([(p.partition, p.committed) for p in rest], IDLE_WAIT_MS)
        return ([], 0) if self._must_not_plan() else self._bounded(rest)

    def _without_replays(
        self, free: Sequence[BatchStart]
    ) -> tuple[list[BatchStart], list[BatchStart]]:
        """What may have entries in the next batch, and what may have letters replayed. Entries wait
        for letters, lest they pass the ids between them; unless those letters end consumers.
        """
        rest, replays = [], []
        self._ends.clear()
        for start in free:
            if start.replays is not None and start.replays.is_over:  # a sink was looked at (_free)
                here = range_of(start, start.committed)
                self._groups.run(replaying.narrow(here, len(start.replays.letters)))
            if start.replays is None or start.replays.is_over:
                rest.append(start)
                continue
            is_gap = self._events.is_gap_after(start.partition, start.committed)
            if is_gap:
                replays.append(start)
            else:
                self._ends[start.partition] = isolation.run_end(start, self._events.ids)
            if not is_gap or start.replays.crashes:
                rest.append(start)
        return rest, replays

    def _must_not_plan(self) -> bool:
        if self._shared.get("stopping"):
            return True
        return time.monotonic_ns() // 1_000_000 >= self._shared.get("lease_end_ms")

    def _nothing(self) -> tuple[list[Range], int | None]:
        time.sleep(IDLE_WAIT_MS / 1000)
        return [], 0

    def _free(self) -> list[BatchStart]:
        """What may be read, and what is held back and to be skipped. Raises Fenced."""
        planned = self._groups.run(agent_side.next_batch(self._speaker))
        self._events.demand(planned[0].replication_id if planned else "")
        skips = [p for p in planned if p.skip is not None]
        free = [*self._not_held_back(p for p in planned if p.skip is None), *skips]
        if self._sink is not None:
            free = self._sink.begin(free, self._shared.get("finished"))
        why, halted = self._sink.troubles if self._sink is not None else Troubles()
        self._shared.tell(Troubles(why, (*halted, *isolation.halted_of(planned))))
        return free

    def _not_held_back(self, planned: Iterable[BatchStart]) -> list[BatchStart]:
        held_back, dead_letters = self._shared.held_back()
        self._halt = dead_letters == "halt"
        return [p for p in planned if (str(p.partition), p.fence) not in held_back]

    def _bounded(self, free: Sequence[BatchStart]) -> tuple[list[Range], int | None]:
        if not free:
            return [], 0
        events_max = max(EVENTS_PER_RANGE_MIN, self._shared.get("events_max") // len(free))
        bounds = self._events.bounds(
            [(p.partition, p.committed) for p in free], events_max, BATCH_BYTES_MAX // len(free)
        )
        ranges: list[Range] = []
        events: int | None = 0
        for planned, bound in zip(free, bounds, strict=True):
            end = bound.to_offset
            if bound.probe and end == planned.committed:
                end = self._probed(planned.partition, end, events_max)
            end = min(end, self._ends.get(planned.partition, end))
            if end > planned.committed:
                ranges.append(range_of(planned, end))
                counted = self._events_between(planned, bound)
                events = None if events is None or counted is None else events + counted
        return ranges, events

    def _events_between(self, planned: BatchStart, bound: Bound) -> int | None:
        """Events from the committed offset to the bound, when both ends were counted."""
        before = self._totals.get(planned.partition)
        if bound.total is None:
            return None
        self._totals[planned.partition] = (bound.to_offset, bound.total)
        return bound.total - before[1] if before and before[0] == planned.committed else None

    def _probed(self, partition: Partition, start: Offset, events_max: int) -> Offset:
        """A few steps over entries that are in no index, as one event each."""
        end = start
        for _ in range(max(1, min(PROBE_STEPS_MAX, events_max // PROBE_ENTRIES))):
            ids = self._events.ids(partition, end, PROBE_ENTRIES)
            if not ids:
                break
            end = ids[-1]
        return end
