"""What an agent costs that holds 64 partitions and has nothing to do: private memory, CPU.

Real Redis, default timings. The consumer beside it is not counted: it is another process.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from assignment.types import GroupSettings
from dashboard.embedded_redis import EmbeddedRedis
from tests.agent.conftest import World

PARTITIONS = 64
WATCHED_S = 20.0  # six renews and beats
MEBIBYTE = 2**20


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as name:
        redis = EmbeddedRedis(Path(name) / "redis")
        redis.start()
        world = World(Path(name), redis.url, "idle")
        try:
            return measured(world)
        finally:
            world.close()
            redis.stop()


def measured(world: World) -> list[dict[str, Any]]:
    world.dashboard.configure(GroupSettings(stream="s-idle", partitions=PARTITIONS))
    agent = world.agent(TINY_BATCH_MS="500")
    member = world.member()
    world.dashboard.assign({member: range(PARTITIONS)})
    world.until_running(member, set(range(PARTITIONS)))
    process = psutil.Process(agent.process.pid)
    before = process.cpu_times()
    time.sleep(WATCHED_S)
    after = process.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    private = process.memory_full_info().uss / MEBIBYTE
    bare = bare_python() / MEBIBYTE
    return [
        {
            "name": "agent_idle_memory",
            "value": round(private, 1),
            "unit": "MiB",
            "ratio": round(private / bare, 2),
            "yardstick": f"private, with {PARTITIONS} partitions (aim 60); a bare Python here",
        },
        {
            "name": "agent_idle_cpu",
            "value": round(100 * cpu_s / WATCHED_S, 2),
            "unit": "% of a core",
            "ratio": None,
            "yardstick": f"{PARTITIONS} partitions, default timings (aim 1)",
        },
    ]


def bare_python() -> int:
    """Private memory of an interpreter that has imported nothing."""
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        time.sleep(0.5)
        private = int(psutil.Process(process.pid).memory_full_info().uss)
        process.kill()
    return private
