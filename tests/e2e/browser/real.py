"""Real agents, each beside a small consumer that keeps state, on a running dashboard."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from asgiref.sync import sync_to_async
from django.conf import settings

from assignment.wire import StreamKeys
from dashboard import coordinator
from dashboard.actions import groups
from dashboard.actions.preview import read
from dashboard.live.connection import sync_client
from dashboard.models import AuditSource, Group
from dashboard.records.audit import By
from tests.dashboard.agents import tick
from tests.e2e.browser.stage import STEP_S, until

ROOT = Path(__file__).parents[3]
CONSUMER = ROOT / "tests" / "e2e" / "browser" / "keeping_consumer.py"
END_S = 10
EVENTS = 200  # in each partition
START_S = 60.0  # of a Python process on a busy machine
TIMINGS = {
    "lease_ms": 9_000,
    "renew_ms": 1_000,
    "session_timeout_ms": 8_000,
    "heartbeat_ms": 500,
    "grace_ms": 3_000,
}


class RealStage:
    """Steps as Celery would run them. `holds`: as long as somebody learns no new plan is made, so
    that what lasts a moment with a small state can be seen.
    """

    def __init__(self, group: Group, address: str, folder: Path) -> None:
        self.group = group
        self.address = address
        self.folder = folder
        self.holds = False
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.token = ""

    async def start(self, *names: str) -> None:
        made = await sync_to_async(groups.create_token)(self.group, by=By("ann", AuditSource.PAGE))
        self.token = made.text
        for name in names:
            self._start(name)

        async def all_process() -> bool:
            return sorted(len(p) for p in (await self.owned()).values()) == [
                self.group.partitions // len(names)
            ] * len(names)

        await until(all_process, "every partition owned, evenly", START_S)
        await sync_to_async(self._feed)()

    def _start(self, name: str) -> None:
        log = (self.folder / f"{name}.log").open("wb")
        options = (
            *("--group", self.group.name, "--name", name, "--dashboard", self.address),
            *("--redis-url", settings.REDIS_URL, "--state-dir", str(self.folder / name)),
            *("--log-format", "json", "--", sys.executable, str(CONSUMER)),
        )
        self.agents[name] = subprocess.Popen(
            (sys.executable, "-m", "agent", *options),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT), "EVENKEEL_TOKEN": self.token},
        )

    def _feed(self) -> None:
        keys = StreamKeys(self.group.stream)
        for number in range(self.group.partitions):
            pipe = sync_client().pipeline(transaction=False)
            for _ in range(EVENTS):
                pipe.xadd(keys.entries(number), {"event": "1"})
            pipe.execute()

    async def owned(self) -> Mapping[str, list[int]]:
        """Member id -> what it holds the lock of."""
        return await sync_to_async(self._owned)()

    def _owned(self) -> Mapping[str, list[int]]:
        view = read(self.group)
        found: dict[str, list[int]] = {member: [] for member in view.members}
        for partition, lock in view.locks.items():
            found.setdefault(lock.member_id, []).append(partition.number)
        return {member: sorted(numbers) for member, numbers in found.items()}

    def process_of(self, member: str) -> "subprocess.Popen[bytes]":
        return self.agents[member.rpartition("-")[0]]

    async def play(self) -> None:
        while True:
            await sync_to_async(self._step)()
            await asyncio.sleep(STEP_S)

    def _step(self) -> None:
        if not (self.holds and self._somebody_learns()):
            coordinator.rebalance(self.group.name, "task", "worker@stage")
        tick()
        coordinator.sample()

    def _somebody_learns(self) -> bool:
        last = self.group.rebalances.first()
        return last is not None and last.learning > 0

    def close(self) -> None:
        """SIGTERM, then what takes too long is killed."""
        for agent in self.agents.values():
            if agent.poll() is None:
                agent.send_signal(signal.SIGTERM)
        for agent in self.agents.values():
            try:
                agent.wait(END_S)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
