"""What an agent costs that holds 64 partitions and has nothing to do: private memory, CPU.

Real Redis, default timings. The consumer beside it is not counted: it is another process.
"""

import subprocess
import sys
import time
from typing import Any

import psutil

from assignment.types import GroupSettings
from tests.agent.conftest import World, until
from tests.bench.one_agent import (
    PARTITIONS,
    WATCHED_S,
    cpu_s,
    private_mebibytes,
    row,
    wait,
    world_of,
)


def rows() -> list[dict[str, Any]]:
    with world_of("idle") as world:
        return measured(world)


def measured(world: World) -> list[dict[str, Any]]:
    world.dashboard.configure(GroupSettings(stream="s-idle", partitions=PARTITIONS))
    agent = world.agent(TINY_BATCH_MS="500")
    member = world.member()
    world.dashboard.assign({member: range(PARTITIONS)})
    world.until_running(member, set(range(PARTITIONS)))
    process = psutil.Process(agent.process.pid)
    spent_s = cpu_s(process, wait)
    private, bare = private_mebibytes(process), bare_python()
    return [
        *coordinating(bare),
        row(
            "agent_idle_memory",
            round(private, 1),
            "MiB",
            f"private, with {PARTITIONS} partitions (aim 60); a bare Python here",
            ratio=round(private / bare, 2),
        ),
        row(
            "agent_idle_cpu",
            round(100 * spent_s / WATCHED_S, 2),
            "% of a core",
            f"{PARTITIONS} partitions, default timings (aim 1)",
        ),
    ]


def coordinating(bare: float) -> list[dict[str, Any]]:
    """Two agents with Redis alone: the one that computes has loaded the strategies."""
    with world_of("client") as world:
        world.store.door.ask("DEL", world.store.keys.meta)
        flags = ("--stream", "s-client", "--partitions", str(PARTITIONS))
        one = world.alone("a", *flags)
        until(lambda: len(world.running(world.member("a"))) == PARTITIONS, "all runs")
        other = world.alone("b", *flags)
        until(lambda: bool(world.running(world.member("b"))), "both run")
        measured = [
            (name, private_mebibytes(psutil.Process(agent.process.pid)))
            for name, agent in (("computes", one), ("another", other))
        ]
    return [
        row(
            f"agent_client_{name}_memory",
            round(private, 1),
            "MiB",
            "private, in a group whose agents coordinate (aim 60 for who does not compute)",
            ratio=round(private / bare, 2),
        )
        for name, private in measured
    ]


def bare_python() -> float:
    """Private memory, in MiB, of an interpreter that has imported nothing."""
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        time.sleep(0.5)
        private = private_mebibytes(psutil.Process(process.pid))
        process.kill()
    return private
