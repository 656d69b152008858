"""One agent with 64 partitions on a real Redis, default timings, and what its process costs."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from dashboard.demo.embedded_redis import EmbeddedRedis
from tests.agent.conftest import World

PARTITIONS = 64
WATCHED_S = 20.0  # six renews and beats
MEBIBYTE = 2**20


@contextmanager
def world_of(group: str) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as name:
        redis = EmbeddedRedis(Path(name) / "redis")
        redis.start()
        world = World(Path(name), redis.url, group)
        try:
            yield world
        finally:
            world.close()
            redis.stop()


def wait() -> None:
    time.sleep(WATCHED_S)


def cpu_s(process: psutil.Process, meanwhile: Callable[[], None]) -> float:
    before = process.cpu_times()
    meanwhile()
    after = process.cpu_times()
    return float(after.user + after.system - before.user - before.system)


def private_mebibytes(process: psutil.Process) -> float:
    return float(process.memory_full_info().uss / MEBIBYTE)


def row(
    name: str, value: float, unit: str, yardstick: str, ratio: float | None = None
) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "ratio": ratio, "yardstick": yardstick}
