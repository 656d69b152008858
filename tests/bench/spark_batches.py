"""CPU of a small batch by part, beside what Spark itself takes for the same query.

The demo's pipeline and Spark settings, one consumer, one batch of EVENTS events after the other:
Redis, planner, tasks, merge with LMDB and fenced commit. The floor is in the same session: the same
query over Spark's own rate source, in foreachBatch as here, into its sink that does nothing.
"""

import json
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from agent.pipelines import flights
from agent.spark import commit
from agent.spark.effects import StateEffects
from agent.spark.runner import PROGRESS_OPTIONS
from agent.spark.session import make_session
from agent.store.events import Packed
from assignment.types import Offset
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.demo.parts import QUICK_SPARK
from tests.bench.apart import share
from tests.bench.one_agent import row
from tests.e2e.spark_world import Link, SparkWorld, until

EVENTS, PARTITIONS, BATCHES_COLD, BATCHES = 100, 4, 60, 60
EACH = EVENTS // PARTITIONS
AIM = 1.5
GOAL_MS = 1_000
EVENTS_PER_SECOND, PACED_S = 20, 20.0
LOOK_S = 0.03  # a look costs Redis something, too
PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
CARRIERS, AIRPORTS = ("AA", "B6", "DL", "UA"), ("LAX", "SFO", "ORD", "MIA", "BOS")
JVM_PARTS = {  # by how the names of its threads begin; a name is cut after 15 characters
    "stream execution": "spark_planning",
    "Executor task": "spark_tasks",
    "broadcast-exchange": "spark_broadcast",
    "dag-scheduler": "spark_scheduler",
    "dispatcher": "spark_scheduler",
    "task-result": "spark_scheduler",
    "spark-listener": "spark_listeners",
    "element-tracking": "spark_listeners",
    "async-log": "checkpoint",
    "C1 Compiler": "java_compiler",
    "C2 Compiler": "java_compiler",
    "VM Thread": "java_gc",
    "GC Thread": "java_gc",
    "Thread-": "java_python_calls",
}
ENDED = "spark_planning"  # of threads that ended: one of each batch plans and collects its result
Cpu = Counter[str]  # part -> seconds


def figures() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder:
        server = EmbeddedRedis(Path(folder) / "redis")
        server.start()
        session = make_session("bench", QUICK_SPARK)
        try:
            return _figures(session, server, Path(folder))
        finally:
            session.stop()
            server.stop()


def _figures(session: SparkSession, server: EmbeddedRedis, folder: Path) -> list[dict[str, Any]]:
    assert server.process
    world = SparkWorld(server.url, "bench-batches", folder, PARTITIONS)
    watch = Watch(session, server.process.pid)
    with consuming(session, world, watch) as link:
        _batches(world, BATCHES_COLD)
        at_once = paced(world, link, watch, goal_ms=0)
        default = paced(world, link, watch, goal_ms=GOAL_MS)
        link.settings = replace(link.settings, latency_goal_ms=0)
        ours = consumed(world, watch)
    return [batch_row(ours, floor_of(session, folder, watch)), *paced_rows(at_once, default)]


def batch_row(ours: Cpu, floor: Cpu) -> dict[str, Any]:
    whole_ms, floor_ms = 1000 * ours.total(), 1000 * floor.total()
    of = f"{EVENTS} events; {said(ours)}; Spark's own {floor_ms:.0f}: {said(floor)}"
    ratio = round(whole_ms / floor_ms, 2)
    return row("batch_cpu_ms", round(whole_ms, 1), "ms", of, ratio=ratio) | {"aim": AIM}


def said(cpu: Cpu) -> str:
    return ", ".join(f"{part} {1000 * s:.1f}" for part, s in cpu.most_common())


def paced_rows(at_once: "Paced", default: "Paced") -> list[dict[str, Any]]:
    every_ms = round(1000 * PACED_S / max(default.batches, 1))
    of = f"{EVENTS_PER_SECOND} events a second, a batch every {every_ms} ms"
    beside = f"at once: {at_once.cores:.2f} cores, a batch every"
    beside += f" {round(1000 * PACED_S / max(at_once.batches, 1))} ms"
    ratio = round(default.cores / at_once.cores, 2)
    late = row("spark_goal_p95_ms", round(default.p95_ms), "ms", f"append to commit; {of}")
    return [
        row("spark_consumer_cores", round(default.cores, 2), "cores", f"{of}; {beside}", ratio),
        late | {"aim": GOAL_MS},
    ]


class Watch:
    """CPU seconds by part, of this process with what it started and of Redis."""

    def __init__(self, session: SparkSession, redis_pid: int) -> None:
        self._redis = psutil.Process(redis_pid)
        gateway = session.sparkContext._gateway
        assert gateway is not None
        self._jvm = _java_of(gateway.proc.pid)
        self.inside: Cpu = Counter()  # of this process's threads, as `timed` found it

    def per_batch(self, batches: Callable[[], int]) -> Cpu:
        """`batches` runs some, and returns how many."""
        self.inside.clear()
        before, own = self._now(), time.thread_time()
        count = batches()
        after = self._now()
        after["driver"] -= time.thread_time() - own
        spent = {part: after[part] - before[part] for part in after}
        spent["driver"] -= self.inside.total()
        spent.update(self.inside)
        return Counter({part: s / count for part, s in spent.items() if s > 0})

    def whole_s(self) -> float:
        """So far, without the thread that measures."""
        return self._now().total() - time.thread_time()

    def _now(self) -> Cpu:
        cpu: Cpu = Counter()
        cpu["driver"] = _cpu_s(psutil.Process())
        cpu["redis"] = _cpu_s(self._redis)
        cpu[ENDED] = _cpu_s(self._jvm)
        for name, seconds in _threads_s(self._jvm.pid):
            parts = (part for begin, part in JVM_PARTS.items() if name.startswith(begin[:15]))
            cpu[next(parts, "java_other")] += seconds
            cpu[ENDED] -= seconds
        for process in self._jvm.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # one that has just ended
                part = "planner" if PLANNER in process.cmdline() else "python_workers"
                cpu[part] += _cpu_s(process)
        return cpu


@contextmanager
def consuming(session: SparkSession, world: SparkWorld, watch: Watch) -> Iterator[Link]:
    link = world.link()
    with ExitStack() as stack:
        for what, name, part in INSIDE:
            stack.enter_context(timed(what, name, part, watch.inside))
        stack.enter_context(world.consuming(flights.PIPELINE, session, link))
        until(lambda: (h := world.health()) and h.state == "ready", "the query")
        yield link


def consumed(world: SparkWorld, watch: Watch) -> Cpu:
    """Batches of this project's consumer, each with the same number of events."""
    return watch.per_batch(lambda: _batches(world, BATCHES))


def _batches(world: SparkWorld, count: int) -> int:
    first = _batch(world)
    for number in range(count):
        for n, partition in enumerate(world.partitions):
            begin = number * EVENTS + n * EACH
            world.append(partition, *map(_flight, range(begin, begin + EACH)))
        until(lambda: world.all_committed() or time.sleep(LOOK_S), "the batch")
    return _batch(world) - first


class Paced(NamedTuple):
    cores: float
    batches: int
    p95_ms: float


def paced(world: SparkWorld, link: Link, watch: Watch, goal_ms: int) -> Paced:
    """Events one by one, evenly in time, in turn to each partition."""
    link.settings = replace(link.settings, latency_goal_ms=goal_ms)
    first, spent = _batch(world), watch.whole_s()
    took_ms: list[float] = []
    waiting: deque[tuple[int, Offset, float]] = deque()  # partition, offset, when
    began_s = time.perf_counter()
    for number in range(int(PACED_S * EVENTS_PER_SECOND)):
        n = number % PARTITIONS
        end = world.append(world.partitions[n], _flight(number))
        waiting.append((n, end, time.perf_counter()))
        while (rest_s := began_s + number / EVENTS_PER_SECOND - time.perf_counter()) > 0:
            took_ms += _arrived(world, waiting)
            time.sleep(min(rest_s, LOOK_S))
    until(lambda: took_ms.extend(_arrived(world, waiting)) or not waiting, "the last events")
    cores = (watch.whole_s() - spent) / (time.perf_counter() - began_s)
    return Paced(cores, _batch(world) - first, share(took_ms, 95))


def _arrived(world: SparkWorld, waiting: deque[tuple[int, Offset, float]]) -> list[float]:
    """Takes out what is committed; how long each took from its append, in ms."""
    committed, now = world.committed(), time.perf_counter()
    done = [one for one in waiting if one[1] <= committed[one[0]]]
    for one in done:
        waiting.remove(one)
    return [1000 * (now - at) for _, _, at in done]


def _batch(world: SparkWorld) -> int:
    time.sleep(1.0)  # what it said last is written
    health = world.health()
    assert health is not None
    return health.batch


def floor_of(session: SparkSession, folder: Path, watch: Watch) -> Cpu:
    done = 0

    def batch(events: DataFrame, _: int) -> None:
        nonlocal done
        changes = flights.PIPELINE.changes(events.coalesce(1))
        changes.write.format("noop").mode("overwrite").save()
        done += 1

    rate = session.readStream.format("rate-micro-batch").options(
        rowsPerBatch=str(EVENTS), numPartitions="1"
    )
    query = (
        rate.load()
        .select(*_like_flights())
        .writeStream.foreachBatch(batch)
        .options(**PROGRESS_OPTIONS, checkpointLocation=str(folder / "floor"))
        .start()
    )

    def run(count: int) -> int:
        before = done
        until(lambda: done >= before + count, "batches of the floor")
        return done - before

    try:
        run(BATCHES_COLD)
        return watch.per_batch(lambda: run(BATCHES))
    finally:
        query.stop()


@contextmanager
def timed(what: Any, name: str, part: str, into: Cpu) -> Iterator[None]:
    """CPU of a thread in that function, less what the timed ones that it calls took."""
    real = getattr(what, name)

    def measured(*arguments: Any, **named: Any) -> Any:
        began, others = time.thread_time(), into.total()
        try:
            return real(*arguments, **named)
        finally:
            into[part] += time.thread_time() - began - (into.total() - others)

    setattr(what, name, measured)
    try:
        yield
    finally:
        setattr(what, name, real)


INSIDE = (
    (commit.Committer, "commit", "commit"),
    (commit, "changes_by_partition", "arrow"),
    (StateEffects, "prepare", "lmdb"),
    (StateEffects, "applied", "lmdb"),
)


def _flight(number: int) -> Packed:
    event = {
        "id": number,
        "at_ms": 1_357_000_000_000 + 60_000 * number,
        "carrier": CARRIERS[number % len(CARRIERS)],
        "tailnum": f"N{number % 300:03d}AA",
        "origin": "JFK",
        "dest": AIRPORTS[number % len(AIRPORTS)],
        "dep_time": 900,
        "arr_delay": number % 60 - 20,
        "time_hour": "2013-01-01T10:00:00Z",
    }
    text = json.dumps(event).encode()
    return Packed((b"json", text), 1, len(text))


def _like_flights() -> list[Any]:
    """The same from the rate source's `value`."""
    number = F.col("value")

    def one_of(names: tuple[str, ...]) -> Any:
        return F.element_at(F.array(*map(F.lit, names)), (number % len(names) + 1).cast("int"))

    return [
        number.alias("id"),
        (number * 60_000 + 1_357_000_000_000).alias("at_ms"),
        one_of(CARRIERS).alias("carrier"),
        F.format_string("N%03dAA", number % 300).alias("tailnum"),
        F.lit("JFK").alias("origin"),
        one_of(AIRPORTS).alias("dest"),
        F.lit(900).alias("dep_time"),
        (number % 60 - 20).cast("int").alias("arr_delay"),
        F.lit("2013-01-01T10:00:00Z").alias("time_hour"),
        (number % PARTITIONS).cast("int").alias("partition"),
    ]


# --- processes


def _java_of(pid: int) -> psutil.Process:
    """The launcher may be a shell that has become Java, or its parent."""
    top = psutil.Process(pid)
    return next(p for p in (top, *top.children(recursive=True)) if p.name() == "java")


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _threads_s(pid: int) -> Iterator[tuple[str, float]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            yield name, int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue  # it has ended
