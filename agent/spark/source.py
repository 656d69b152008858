"""The streaming source `evenkeel`: what this member owns, from the committed offset on.

Spark's offset is the plan of one batch, {"n": 7, "p": {"3": [from, to, fence]}, "halt": a malformed
event stops its partition, "tasks": how many Spark tasks read it}. One with "warm_up" is read and
never committed (agent/spark/warm_up.py), one with "alone" has entries of one suspect, one with
"skip" passes an entry, one with "replay" has dead letters, each with who asked for it, and no entry
(agent/spark/isolation.py). The committed offsets in Redis are the truth;
Spark's own start offset is ignored, so its checkpoint may vanish.
Runs in three places: the planner process beside the driver, the driver, and Spark's tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from agent.spark.planner import Planner
from agent.spark.ranges import batch_name, plan_of
from agent.spark.reading import ReadTask, read_task

FORMAT = "evenkeel"


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
