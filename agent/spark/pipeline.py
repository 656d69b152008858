"""What a user of the Spark side writes: a pipeline.

def changes(events: DataFrame) -> DataFrame:
    return events.groupBy("partition", "key").agg(F.sum("amount").alias("amount"))

def merge(old: Any, change: Mapping[str, Any]) -> Any:
    return (old or 0) + change["amount"]

run(Pipeline(name="sums", schema="key string, amount bigint", changes=changes, merge=merge))
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assignment.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from agent.spark.sql_sink import Sink

CHECK_VARIABLE = "EVENKEEL_CHECK"  # "1": commits carry the ids of the events they were made from
PARTITION_COLUMN = "partition"  # int, beside the event's own columns
KEY_COLUMN = "key"
IDS_COLUMN = "ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Events in, keyed changes out, and how a change meets what was there before.

    `schema`: the event's columns as DDL ("key string, amount bigint"); a column that an event lacks
    is null, a value that does not fit its column makes the event malformed.
    `changes`: a DataFrame of those columns and `partition` (int) -> one row for each `partition`
    and `key` (string, not null), with columns of any other names: the change. It runs in Spark's
    tasks, once per batch; it must not read its input twice and must keep `partition`. A column
    `ids` (array<bigint>) is no part of the change: it is packed into the commit.
    `merge`: (the key's value or None, the change as a mapping) -> the new value, anything that JSON
    can hold, or None to forget the key. It runs on the driver and must be a pure function.
    `sink`: where effects go instead of the partition's state (agent/spark/sql_sink.py); `merge` is
    then not used.
    """

    name: str
    schema: str
    changes: "Callable[[DataFrame], DataFrame]"
    merge: Callable[[Any, Mapping[str, Any]], Any] | None = None
    sink: "Sink | None" = None

    def __post_init__(self) -> None:
        if (self.merge is None) == (self.sink is None):
            raise InvalidInput(f"pipeline {self.name!r} needs either a merge rule or a sink")

    @property
    def stateful(self) -> bool:
        return self.sink is None


def check_mode() -> bool:
    """Whether this is a check run, in which effects are counted by event."""
    return os.environ.get(CHECK_VARIABLE) == "1"
