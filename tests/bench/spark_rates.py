"""Events a second through one Spark consumer, warm, and the time from append to commit.

The way measured is the whole one: Redis, the source, an aggregation by partition and key, the merge
with LMDB, the fenced commit; every event is checked to be committed. Beside it, in the same run, a
bare redis-py loop reads the same events, one per entry, and does nothing with them.
"""

import io
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import redis
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from agent.spark.pipeline import Pipeline
from agent.spark.session import make_session
from agent.store.events import Packed
from assignment.types import START
from assignment.wire import GroupKeys, StreamKeys
from dashboard.demo.embedded_redis import EmbeddedRedis
from tests.e2e.spark_world import Link, SparkWorld, until

EVENTS = int(os.environ.get("EVENKEEL_BENCH_EVENTS", "1000000"))  # of a round
ROUNDS = 4  # the last one is warm
PARTITIONS, KEYS, PER_ENTRY, ENTRIES_PER_APPEND = 4, 10_000, 500, 20
SINGLES_PER_APPEND = 500
LATENCIES_COLD, LATENCIES = 60, 60
SCHEMA = "key string, amount bigint, note string"


def figures() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder:
        server = EmbeddedRedis(Path(folder) / "redis")
        server.start()
        session = make_session("bench")
        try:
            return _rows(session, server.url, Path(folder))
        finally:
            session.stop()
            server.stop()


def _rows(session: Any, url: str, folder: Path) -> list[dict[str, Any]]:
    found = []
    bare = 0.0
    for form in ("single", "arrow"):
        world = SparkWorld(url, f"bench-{form}", folder / form, PARTITIONS)
        rate = 0.0
        with _consuming(session, world) as link:
            for _ in range(ROUNDS):
                link.lease_end_ms = 0
                _append(world, form)
                if form == "single":
                    bare = _bare_loop(url, world)
                rate = _timed(world, link)
                _trim(world)
            if form == "single":
                latency = _latency(world)
        found.append(
            {
                "name": f"spark_{form}",
                "value": round(rate),
                "unit": "events/s",
                "ratio": round(rate / bare, 2),
                "yardstick": f"bare redis-py loop, {bare:.0f} events/s",
            }
        )
    found.append(
        {
            "name": "spark_latency_ms",
            "value": round(latency, 1),
            "unit": "ms",
            "ratio": None,
            "yardstick": "median of one event, append to commit, latency_goal_ms 0; aim below 200",
        }
    )
    return found


def _summed(events: DataFrame) -> DataFrame:
    return events.groupBy("partition", "key").agg(F.sum("amount").alias("amount"))


@contextmanager
def _consuming(session: Any, world: SparkWorld) -> Iterator[Link]:
    pipeline = Pipeline(
        name="bench",
        schema=SCHEMA,
        changes=_summed,
        merge=lambda old, change: (old or 0) + change["amount"],
    )
    link = world.link()
    with world.consuming(pipeline, session, link):
        until(lambda: (h := world.health()) and h.state == "ready", "the query")
        yield link


def _append(world: SparkWorld, form: str) -> None:
    """EVENTS events, the same in every round and form; about 100 bytes each as JSON."""
    packed: Callable[[int], list[Packed]] = _arrows if form == "arrow" else _singles
    share = EVENTS // PARTITIONS
    step = SINGLES_PER_APPEND if form == "single" else PER_ENTRY * ENTRIES_PER_APPEND
    for partition in world.partitions:
        for first in range(0, share, step):
            world.append(partition, *packed(first))


def _event(number: int) -> dict[str, Any]:
    return {"key": f"key-{number * 7919 % KEYS:05d}", "amount": number, "note": "x" * 50}


def _singles(first: int) -> list[Packed]:
    texts = [json.dumps(_event(first + n)).encode() for n in range(SINGLES_PER_APPEND)]
    return [Packed((b"json", text), 1, len(text)) for text in texts]


def _arrows(first: int) -> list[Packed]:
    return [_arrow(first + n * PER_ENTRY) for n in range(ENTRIES_PER_APPEND)]


def _arrow(first: int) -> Packed:
    table = pa.Table.from_pylist([_event(first + n) for n in range(PER_ENTRY)])
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return Packed((b"arrow", out.getvalue()), PER_ENTRY, len(out.getvalue()))


def _timed(world: SparkWorld, link: Link) -> float:
    ends = [world.end(p) for p in world.partitions]
    before = _applied(world)
    expected = sum(_produced(world))
    started = time.perf_counter()
    link.lease_end_ms = 2**62
    until(lambda: world.committed() == ends, "all events")
    took = time.perf_counter() - started
    assert _applied(world) == expected, "committed is not what was appended"
    return (expected - before) / took


def _applied(world: SparkWorld) -> int:
    values = world.store.door.ask("HVALS", GroupKeys(world.name).applied)
    return sum(int(value.split()[0]) for value in values)


def _produced(world: SparkWorld) -> list[int]:
    keys = [StreamKeys(p.stream).producers(p.number) for p in world.partitions]
    return [int(world.store.door.ask("HGET", key, ":events")) for key in keys]


def _trim(world: SparkWorld) -> None:
    for partition, end in zip(world.partitions, world.committed(), strict=True):
        for key in (StreamKeys.entries, StreamKeys.index):
            name = key(StreamKeys(partition.stream), partition.number)
            world.store.door.ask("XTRIM", name, "MINID", f"{end.ms}-{end.seq}")


def _bare_loop(url: str, world: SparkWorld) -> float:
    """Entries a second that redis-py gives, with its own callbacks, in one process."""
    client = redis.Redis.from_url(url)
    started = time.perf_counter()
    read = 0
    for partition, after in zip(world.partitions, world.committed(), strict=True):
        key = StreamKeys(partition.stream).entries(partition.number)
        last = str(after or START)
        while chunk := client.xrange(key, f"({last}", "+", count=1_000):
            read += len(chunk)
            last = chunk[-1][0].decode()
    took = time.perf_counter() - started
    client.close()
    return read / took


def _latency(world: SparkWorld) -> float:
    """Median ms from before the append to when the commit is seen."""
    took = []
    for number in range(LATENCIES_COLD + LATENCIES):
        partition = world.partitions[number % PARTITIONS]
        text = json.dumps(_event(number)).encode()
        started = time.perf_counter()
        end = world.append(partition, Packed((b"json", text), 1, len(text)))
        while world.store.committed([partition])[partition] != end:
            time.sleep(0.001)
        took.append((time.perf_counter() - started) * 1000)
    return statistics.median(took[LATENCIES_COLD:])
