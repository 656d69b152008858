"""CPU of the whole demo once it runs steadily, at its default speed and with its default consumers.

`up` as anybody starts it, on a free port and in a folder of its own. What counts is what all its
processes take: web, workers, Redis, producer, agents, and each consumer's Spark.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from dashboard.demo import processes
from dashboard.demo.embedded_redis import free_port
from tests.bench import apart
from tests.bench.apart import Figure, NotMeasured

FIGURE = Figure(name="demo_cores", unit="cores", aim=1.0)
START_S = 600.0  # three times Spark, one after the other
# A minute is two and a half days of flights. A consumer's first 150 batches, two minutes of them,
# cost up to half as much again: Java compiles.
SETTLED_S, WATCHED_S = 120.0, 60.0
PARTS = {  # by a word of the command line, the first that is there
    "-m agent --group": "agents",
    "agent.pipelines.flights": "consumers",
    "java": "spark",
    "org.apache.spark": "spark",
    "pyspark.daemon": "spark_python",
    "python_streaming_source_runner": "spark_python",
    "dashboard.web": "web",
    "celery": "workers",
    "coordinator.ticker": "workers",
    "server": "redis",
}


def figures() -> list[dict[str, Any]]:
    return apart.rows([FIGURE], lambda: [measured()])


def measured() -> tuple[float, str]:
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder:
        up = start(folder)
        try:
            wait_running(up)
            apart.progress(f"the demo runs; it is watched after {SETTLED_S:.0f} s")
            time.sleep(SETTLED_S)
            before, began_s = cpu_s(folder, up.pid), time.monotonic()
            time.sleep(WATCHED_S)
            spent, took_s = cpu_s(folder, up.pid), time.monotonic() - began_s
            if up.poll() is not None:
                raise NotMeasured(f"the demo ended with {up.returncode}")
        finally:
            apart.end(up)
    return summary(before, spent, took_s)


def summary(
    before: dict[int, tuple[str, float]], after: dict[int, tuple[str, float]], took_s: float
) -> tuple[float, str]:
    """Of processes that ended meanwhile nothing counts; they are none in a steady demo."""
    cores: Counter[str] = Counter()
    for pid, (part, seconds) in after.items():
        cores[part] += (seconds - before.get(pid, (part, 0.0))[1]) / took_s
    parts = ", ".join(f"{part} {value:.2f}" for part, value in cores.most_common())
    return round(cores.total(), 2), f"{took_s:.0f} s; {parts}"


def start(folder: str) -> "subprocess.Popen[str]":
    """Raises nothing: what goes wrong, it says itself."""
    own = ("REDIS_URL", "DATABASE_URL")
    return subprocess.Popen(
        [sys.executable, "manage.py", "up", "--data", folder, "--port", str(free_port())],
        cwd=apart.ROOT,
        env={name: value for name, value in os.environ.items() if name not in own},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_running(up: "subprocess.Popen[str]") -> None:
    """Passes on what it says, and goes on reading. Raises NotMeasured with its last words."""
    runs = threading.Event()
    last = [""]

    def read() -> None:
        assert up.stderr
        for line in up.stderr:
            last[0] = line.strip()
            apart.progress(last[0])
            if last[0].startswith("running;"):
                runs.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    deadline_s = time.monotonic() + START_S
    while not runs.wait(0.5):
        if not reader.is_alive() or time.monotonic() > deadline_s:
            raise NotMeasured(last[0] or "the demo does not run")


def cpu_s(folder: str, top: int) -> dict[int, tuple[str, float]]:
    """Of each process of the tree: what it is, and its CPU seconds so far."""
    found = {}
    for process in [psutil.Process(top), *processes.marked(str(Path(folder).resolve()))]:
        try:
            times, words = process.cpu_times(), " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        part = next((part for word, part in PARTS.items() if word in words), "others")
        found[process.pid] = part, float(times.user + times.system)
    return found
