"""Executors as separate processes: events stay with them, only changed keys come to the driver."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from agent.spark import session as sessions
from agent.spark.pipeline import Pipeline
from tests.e2e.spark_world import SparkWorld, arrow, until

pytestmark = pytest.mark.spark
EVENTS, KEYS, TEXT = 20_000, 10, "x" * 100
RESULTS_MAX = 400 * 1024  # bytes of all results of a job that the driver takes; events are 2 MB


@pytest.fixture(scope="module")
def session() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(sessions.MASTER_VARIABLE, "local-cluster[2,1,1024]")
        conf = {"spark.driver.maxResultSize": str(RESULTS_MAX), "spark.executor.memory": "512m"}
        made = sessions.make_session("cluster-test", conf)
        yield made
        made.stop()


def test_events_never_come_to_the_driver(
    session: Any,
    redis_url: str,
    group_name: str,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans: list[str] = []
    collected: list[pa.Table] = []
    collect = ClassicFrame.toArrow

    def collecting(frame: DataFrame) -> pa.Table:
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        collected.append(collect(frame))
        return collected[-1]

    def changes(events: DataFrame) -> DataFrame:
        longest = F.max(F.length("text")).alias("longest")
        return events.groupBy("partition", "key").agg(F.count("*").alias("n"), longest)

    def merge(old: Any, change: Any) -> Any:
        return (old or 0) + change["n"]

    monkeypatch.setattr(ClassicFrame, "toArrow", collecting)
    schema = "key string, text string"
    pipeline = Pipeline(name="counts", schema=schema, changes=changes, merge=merge)
    world = SparkWorld(redis_url, group_name, tmp_path)
    with world.consuming(pipeline, session):
        until(lambda: (h := world.health()) and h.state == "ready", "the query")
        collected.clear()
        plans.clear()
        for first in range(0, EVENTS, 500):
            rows = [{"key": f"k{n % KEYS}", "text": TEXT} for n in range(first, first + 500)]
            world.append(world.partitions[(first // 500) % 2], arrow(*rows))
        until(world.all_committed, "all events")
    executors = session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    assert executors == 2
    assert sum(sum(world.state(p).values()) for p in world.partitions) == EVENTS
    assert all(table.num_rows <= 2 * KEYS for table in collected)
    assert sum(table.nbytes for table in collected) < EVENTS  # not a byte for each event
    for plan in plans:
        top, _, below = plan.partition("HashAggregate")
        assert "Scan" not in top, plan  # what is collected was aggregated by tasks
        assert "Scan" in below, plan
