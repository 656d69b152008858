"""Counts and sums per key: the smallest pipeline with as much state as is wanted.

    evenkeel-agent --group counters -- python -m agent.pipelines.counters
    python -m agent.pipelines.load --stream counters --keys 200000 --rate 300

State of a partition, key -> {"events": how many, "amount": their sum, "last_id": the highest id}.
In a check run each commit carries the ids of its events.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from agent.spark.pipeline import IDS_COLUMN, KEY_COLUMN, PARTITION_COLUMN, Pipeline, check_mode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "id bigint, key string, amount bigint"


def changes(events: "DataFrame") -> "DataFrame":
    """One row per partition and key."""
    return events.groupBy(PARTITION_COLUMN, KEY_COLUMN).agg(
        F.count("*").alias("events"),
        F.sum("amount").alias("amount"),
        F.max("id").alias("last_id"),
        *([F.collect_list("id").alias(IDS_COLUMN)] if check_mode() else []),
    )


def merge(old: Any, change: Mapping[str, Any]) -> dict[str, int]:
    before = old or {"events": 0, "amount": 0, "last_id": -1}
    return {
        "events": before["events"] + change["events"],
        "amount": before["amount"] + change["amount"],
        "last_id": max(before["last_id"], change["last_id"]),
    }


PIPELINE = Pipeline(name="counters", schema=SCHEMA, changes=changes, merge=merge)


if __name__ == "__main__":
    from agent.spark.runner import main

    main(PIPELINE)
