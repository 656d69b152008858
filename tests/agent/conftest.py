"""An agent as a real process between a real Redis, a tiny dashboard and a tiny consumer."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.state.partition import PartitionState
from agent.store.door import RedisDoor
from agent.store.group import GroupStore
from assignment.scripts.group_read import GroupRead
from assignment.types import GroupSettings, HeldState
from tests.agent.replicas_scene import Scene
from tests.agent.state_reading import PARTITION
from tests.agent.tiny_dashboard import TOKEN, TinyDashboard
from tests.contract.world import World as ContractWorld

ROOT = Path(__file__).parents[2]
PATIENCE_S = 20.0
FAST = {
    "lease_ms": 1_500,
    "renew_ms": 500,
    "session_timeout_ms": 1_200,
    "heartbeat_ms": 300,
    "grace_ms": 1_000,
    "consumer_stall_ms": 1_000,
}


def until(fact: Callable[[], Any], what: str = "", patience_s: float = PATIENCE_S) -> Any:
    """The fact as soon as it is true; fails when it does not come true in time."""
    deadline = time.monotonic() + patience_s
    while not (value := fact()):
        assert time.monotonic() < deadline, f"did not happen: {what or fact}"
        time.sleep(0.02)
    return value


@dataclass
class AgentProcess:
    """One started agent; its log lines are events."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path
    stopped: bool = field(default=False)

    def events(self, event: str = "") -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines()
        entries = [json.loads(line) for line in lines if line.startswith("{")]
        return [e for e in entries if not event or e["event"] == event]

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE_S)

    @property
    def consumer_pid(self) -> int:
        return int(until(lambda: self.events("consumer started"))[-1]["pid"])


class World:
    """Starts agents against one group and says what Redis knows of them."""

    consumer: tuple[str, ...] = (sys.executable, str(ROOT / "tests" / "agent" / "tiny_consumer.py"))

    def __init__(self, folder: Path, redis_url: str, group: str) -> None:
        self.folder = folder
        self.redis_url = redis_url
        self.group = group
        self.store = GroupStore.connect(redis_url, group)
        self.dashboard = TinyDashboard(self.store, self.settings())
        self.agents: list[AgentProcess] = []

    def settings(self, **changes: Any) -> GroupSettings:
        values = {"stream": f"s-{self.group}", "partitions": 4, **FAST, **changes}
        return GroupSettings(**values)

    def alone(self, name: str = "a", *options: str, **environ: str) -> AgentProcess:
        """Without a dashboard: the agents coordinate."""
        return self.agent(name, "--coordination", "client", *options, **environ)

    def agent(self, name: str = "a", *options: str, **environ: str) -> AgentProcess:
        arguments = [
            *("--group", self.group),
            *([] if "--coordination" in options else ["--dashboard", self.dashboard.url]),
            *("--redis-url", self.redis_url, "--name", name),
            *("--state-dir", str(self.folder / "state"), "--log-format", "json"),
        ]
        tail = [] if "--attach" in options else ["--", *self.consumer]
        log = self.folder / f"{name}-{len(self.agents)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "agent", *arguments, *options, *tail],
                cwd=ROOT,
                stderr=file,
                stdin=subprocess.DEVNULL,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "EVENKEEL_TOKEN": TOKEN,
                    **environ,
                },
            )
        started = AgentProcess(name, process, log)
        self.agents.append(started)
        return started

    def read(self) -> GroupRead:
        return self.dashboard.read()

    def member(self, name: str = "a", *, able: bool = True) -> str:
        """The id of the (able) member of that name, as soon as it is there."""

        def found() -> str | None:
            rows = self.read().members
            fits = (m for m, row in rows.items() if m.startswith(f"{name}-"))
            return next((m for m in fits if rows[m].able or not able), None)

        return str(until(found, f"member {name} able={able}"))

    def running(self, member: str) -> dict[int, int]:
        """Partition number -> fence of what runs under a live lock of that member."""
        locks = self.read().locks
        held = self.store.owned(member)
        return {
            p.number: h.fence
            for p, h in held.items()
            if h.state is HeldState.RUNNING and p in locks and locks[p].fence == h.fence
        }

    def until_running(self, member: str, numbers: set[int]) -> dict[int, int]:
        until(lambda: set(self.running(member)) == numbers, f"{member} runs {numbers}")
        return self.running(member)

    def close(self) -> None:
        for agent in self.agents:
            for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGTERM):
                if agent.process.poll() is None:
                    agent.send(number)
        for agent in self.agents:
            try:
                agent.process.wait(10)
            except subprocess.TimeoutExpired:
                agent.process.kill()
        self.dashboard.stop()
        self.store.close()


@pytest.fixture
def world(tmp_path: Path, redis_url: str, group_name: str) -> Iterator[World]:
    world = World(tmp_path, redis_url, group_name)
    yield world
    world.close()


@pytest.fixture
def scene(tmp_path: Path, redis_url: str, group_name: str) -> Iterator[Scene]:
    """Of replicas of state: see tests/agent/replicas_scene.py."""
    door = RedisDoor(redis_url)
    scene = Scene(ContractWorld(door, group_name), tmp_path)
    yield scene
    scene.close()
    door.close()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[PartitionState]:
    """Of one partition, empty, written by this process."""
    opened = PartitionState.open(tmp_path, "demo", PARTITION)
    opened.take_over()
    yield opened
    opened.close()
