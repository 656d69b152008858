"""The flights pipeline over a small Spark session, against the second opinion of the demo."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from agent.pipelines import flights
from agent.producer.flights import read_flights
from agent.producer.library import partition_of
from agent.spark import session as sessions
from agent.spark.commit import changes_by_partition
from agent.spark.pipeline import CHECK_VARIABLE
from assignment.wire import unpack_ids
from dashboard.evaluation import flights_check

pytestmark = pytest.mark.spark

FLIGHTS = 3_000
PARTITIONS = 3
BATCHES = 3
COLUMNS = ["id", "at_ms", "carrier", "tailnum", "origin", "dest", "dep_time", "arr_delay"]
State = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(sessions.MASTER_VARIABLE, "local[2]")
        session = sessions.make_session("test-flights", {"spark.driver.memory": "512m"})
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """The first flights as events of a batch: the pipeline's columns and `partition`."""
    first = read_flights().slice(0, FLIGHTS).select([*COLUMNS, "time_hour"])
    keys = [key for _, key in flights_check.event_order(FLIGHTS)]
    numbers = [partition_of(key, PARTITIONS) for key in keys]
    return first.append_column("partition", pa.array(numbers, pa.int32()))


def events_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table, flights.SCHEMA + ", partition int")


@pytest.fixture(scope="module")
def computed(spark: SparkSession, table: pa.Table) -> tuple[Mapping[int, State], list[int]]:
    """State by partition after all batches, and the ids of all commits."""
    states: dict[int, State] = {number: {} for number in range(PARTITIONS)}
    ids: list[int] = []
    size = -(-FLIGHTS // BATCHES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CHECK_VARIABLE, "1")
        for first in range(0, FLIGHTS, size):
            events = events_of(spark, table.slice(first, size))
            changed = changes_by_partition(flights.changes(events).toArrow())
            for number, one in changed.items():
                state = states[number]
                for key, change in one.changes:
                    state[key] = flights.merge(state.get(key), change)
                ids += unpack_ids(one.ids)
    return states, ids


def test_the_result_is_that_of_pandas(computed: tuple[Mapping[int, State], list[int]]) -> None:
    merged: State = {}
    for state in computed[0].values():
        for key, value in state.items():
            if key.startswith(flights.ROUTE):
                merged[key] = added(merged.get(key), value)
    rows = pd.DataFrame([row_of(key, value) for key, value in merged.items()])
    assert flights_check.compare(rows, flights_check.expected(FLIGHTS)) == []


def added(left: dict[str, Any] | None, right: dict[str, Any]) -> dict[str, Any]:
    if left is None:
        return right
    delays = pd.Series(left["delays"]).add(pd.Series(right["delays"]), fill_value=0).astype(int)
    sums = {name: left[name] + right[name] for name in flights.ROUTE_SUMS}
    return {**left, **sums, "delays": delays.to_dict()}


def row_of(key: str, value: dict[str, Any]) -> dict[str, Any]:
    _, carrier, origin, dest = key.split("|")
    row = {name: number for name, number in value.items() if name != "delays"}
    delays = sorted((int(delay), n) for delay, n in value["delays"].items())
    every = [delay for delay, n in delays for _ in range(n)]
    p95 = every[-(-95 * len(every) // 100) - 1] if every else None
    return {"carrier": carrier, "origin": origin, "dest": dest, **row, "delay_p95": p95}


def test_every_flight_is_in_exactly_one_commit(
    computed: tuple[Mapping[int, State], list[int]],
) -> None:
    assert sorted(computed[1]) == list(range(FLIGHTS))


def test_aircraft_are_last_seen_and_counted(
    computed: tuple[Mapping[int, State], list[int]], table: pa.Table
) -> None:
    frame = table.to_pandas().fillna({"tailnum": flights.UNKNOWN})
    wanted = frame.groupby(["tailnum", "origin", "dest"]).agg(
        last_seen_ms=("at_ms", "max"), flights=("id", "size"), delay_minutes=("arr_delay", "sum")
    )
    assert aircraft(computed[0]) == {
        "|".join(("aircraft", *key)): {name: int(number) for name, number in row.items()}
        for key, row in wanted.to_dict("index").items()
    }


def aircraft(states: Mapping[int, State]) -> State:
    """Only an aircraft without a tailnum is in several partitions."""
    found: State = {}
    for state in states.values():
        for key, value in state.items():
            if key.startswith(flights.AIRCRAFT):
                before = found.get(key, {"last_seen_ms": 0, "flights": 0, "delay_minutes": 0})
                found[key] = {
                    "last_seen_ms": max(before["last_seen_ms"], value["last_seen_ms"]),
                    "flights": before["flights"] + value["flights"],
                    "delay_minutes": before["delay_minutes"] + value["delay_minutes"],
                }
    return found


def test_an_event_with_nothing_in_it_is_counted_as_unknown(spark: SparkSession) -> None:
    events = spark.createDataFrame([(0,)], "partition int")
    columns = [part.strip() for part in flights.SCHEMA.split(",")]
    for name, kind in (column.split() for column in columns):
        events = events.selectExpr("*", f"cast(null as {kind}) as {name}")
    changed = changes_by_partition(flights.changes(events).toArrow())
    values = {key: flights.merge(None, change) for key, change in changed[0].changes}
    assert values["route|unknown|unknown|unknown"]["cancelled"] == 1
    assert values["aircraft|unknown|unknown|unknown"] == {
        "last_seen_ms": None,
        "flights": 1,
        "delay_minutes": 0,
    }


def test_what_flights_are_joined_with_is_read_once_for_all_batches(spark: SparkSession) -> None:
    """Each batch has a session object of its own."""
    first = flights.side_tables(spark)
    assert flights.side_tables(spark.newSession()) is first


def test_the_events_are_read_once_and_joined_by_broadcast(
    spark: SparkSession, table: pa.Table, tmp_path: os.PathLike[str]
) -> None:
    path = os.path.join(tmp_path, "events")
    events_of(spark, table).write.parquet(path)
    plan = flights.changes(spark.read.parquet(path))._jdf.queryExecution().executedPlan()
    text = plan.toString()
    assert text.count("FileScan") == 1
    assert text.count("BroadcastHashJoin") == 2
    assert "SortMergeJoin" not in text
