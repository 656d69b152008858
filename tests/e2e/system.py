"""A whole system without Spark: real web, Celery worker, beat and Redis on the tests' database, and
groups of real agents, each beside a tiny consumer.

What keeps learners of a partition from being ready for as long as a test wants (`hide`): all that
leads to its state is one snapshot, and that file is away until it is shown.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.db import connection
from django.test import override_settings

from agent.replicas.replica import RETRY_MS
from agent.state.partition import PartitionState
from agent.state.restore import restore
from agent.state.snapshots import write_snapshot
from agent.store.group import GroupStore
from assignment.scripts import agent_side
from assignment.scripts.agent_side import SnapshotResult
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import HeldState, Partition
from dashboard.actions import groups
from dashboard.celery import app
from dashboard.demo import processes
from dashboard.demo.embedded_redis import EmbeddedRedis, free_port
from dashboard.demo.web_health import answers
from dashboard.live import groups as live_groups
from dashboard.models import AuditSource, Group, Rebalance, ScaleDown
from dashboard.records.audit import By
from tests.agent.conftest import FAST, ROOT, AgentProcess
from tests.dashboard.conftest import _forget_broker

# A learner that failed again and again leaves its partition alone, so a state that is shown may be
# seen that much later.
PATIENCE_S = 25.0 + RETRY_MS[-1] / 1_000
TINY = (sys.executable, str(ROOT / "tests" / "agent" / "tiny_consumer.py"))
State = dict[str, str]  # member -> what it has and learns, as "a12 l3"


def until(fact: Callable[[], Any], what: str = "") -> Any:
    """The fact as soon as it is true; fails when it does not come true in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := fact()):
        assert time.monotonic() < deadline, f"did not happen: {what or fact}"
        time.sleep(0.02)
    return value


class System:
    """Web, worker and beat as processes that the test may kill and start again."""

    def __init__(self, folder: Path, redis: EmbeddedRedis) -> None:
        self.folder = folder
        self.redis = redis
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "REDIS_URL": redis.url,
            "EVENKEEL_DATA": str(folder),
            "DATABASE_URL": database_url(),
            "EVENKEEL_SNAPSHOT_URLS": f"{folder}/agents/snapshots,{folder}/snapshots",
        }
        self.commands = {
            "web": ("dashboard.web", "--port", str(self.port)),
            "worker": (
                *("celery", "-A", "dashboard.celery", "worker"),
                *("--concurrency=2", "--without-mingle", "--without-gossip"),
            ),
            "beat": ("celery", "-A", "dashboard.celery", "beat", "--pidfile="),
        }

    def start(self, *names: str) -> None:
        for name in names or tuple(self.commands):
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", *self.commands[name]],
                    cwd=ROOT,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                )

    def kill(self, *names: str) -> None:
        """SIGKILL, to a worker's children too."""
        for name in names:
            process = self.processes.pop(name)
            processes.kill(processes.with_children(process.pid))
            process.wait()

    def wait_ready(self) -> None:
        until(lambda: answers(self.port, "/readyz"), "web, worker and beat")

    def close(self) -> None:
        for name in reversed(tuple(self.processes)):
            self.kill(name)


@contextmanager
def running(folder: Path, redis: EmbeddedRedis) -> Iterator[System]:
    """This process's dashboard is of the same system: same database, same Redis, same queue."""
    before = app.conf.broker_url
    with override_settings(REDIS_URL=redis.url, REDIS_PREFIX="ek"):
        app.conf.broker_url = redis.url
        system = System(folder, redis)
        try:
            system.start()
            system.wait_ready()
            yield system
        finally:
            system.close()
            _forget_broker()
            app.conf.broker_url = before


def database_url() -> str:
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    whole = urlsplit(os.environ["DATABASE_URL"])
    return urlunsplit(whole._replace(path=f"/{name}"))


@dataclass
class Fleet:
    """One group and its agents. Members and partitions have the names of the worked traces: members
    S1, S2 ..., partitions 1, 2 ... in the order in which `settled` found them.
    """

    system: System
    name: str
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    agents: dict[str, AgentProcess] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)  # S1 -> member id
    numbers: dict[int, int] = field(default_factory=dict)  # name of a partition -> its number
    snapshots: dict[int, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stream = f"s-{self.name}"
        self.group: Group = groups.create_group(
            self.name,
            stream=self.stream,
            by=By("ann", AuditSource.COMMAND),
            **{"partitions": 5, **FAST, **self.settings},
        )
        self.token = groups.create_token(self.group, by=By("ann", AuditSource.COMMAND)).text
        self.store = GroupStore.connect(self.system.redis.url, self.name)
        self.numbers = {n + 1: n for n in range(self.group.partitions)}

    # --- agents

    def start(self, *names: str) -> None:
        """Their consumers are not ready yet."""
        for name in names:
            log = self.folder / f"{name}.log"
            arguments = [
                *("--group", self.name, "--dashboard", self.system.url, "--name", name),
                *("--redis-url", self.system.redis.url, "--log-format", "json"),
                *("--state-dir", str(self.folder / "state" / name)),
                *("--snapshot-url", str(self.folder / "snapshots")),
            ]
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", "agent", *arguments, "--", *TINY],
                    cwd=ROOT,
                    stderr=file,
                    stdin=subprocess.DEVNULL,
                    env={
                        **os.environ,
                        "PYTHONPATH": str(ROOT),
                        "EVENKEEL_TOKEN": self.token,
                        "TINY_READY_FILE": str(self.folder / f"{name}.ready"),
                    },
                )
            self.agents[name] = AgentProcess(name, process, log)
        for name in names:
            self.ids[name] = until(lambda name=name: self._member_id(name), f"{name} joined")

    def _member_id(self, name: str) -> str | None:
        found = (m for m in self.read().members if m.startswith(f"{name}-"))
        return next(found, None)

    def ready(self, *names: str) -> None:
        """Their consumers say so, one after the other."""
        for name in names:
            (self.folder / f"{name}.ready").touch()
            until(lambda name=name: self.read().members[self.ids[name]].able, f"{name} able")

    def kill(self, name: str) -> None:
        """SIGKILL to the agent and its consumer."""
        agent = self.agents[name]
        processes.kill(processes.with_children(agent.process.pid))
        agent.process.wait()

    def exit_code(self, name: str) -> int:
        return self.agents[name].process.wait(PATIENCE_S)

    def close(self) -> None:
        for agent in self.agents.values():
            for _ in range(2):
                if agent.process.poll() is None:
                    agent.send(signal.SIGTERM)
        for agent in self.agents.values():
            try:
                agent.process.wait(10)
            except subprocess.TimeoutExpired:
                agent.process.kill()
        self.store.close()

    # --- state, and what keeps it away

    def partition(self, name: int) -> Partition:
        return Partition(self.stream, self.numbers[name])

    def append(self, *names: int) -> None:
        """An event each; waits until they are committed."""
        before = self.read().applied
        wanted = {p: before[p].total + 1 if p in before else 1 for p in map(self.partition, names)}
        for name in names:
            key = f"{{{self.stream}:{self.numbers[name]}}}"
            self.store.door.ask("XADD", key, "*", "event", "1")
        until(
            lambda: all(
                p in (applied := self.read().applied) and applied[p].total >= total
                for p, total in wanted.items()
            ),
            "the events are committed",
        )

    def is_replicated(self, owner: str, *names: int) -> bool:
        """Whether this member's files of these partitions stand at the committed offset."""
        committed = self.store.committed(list(map(self.partition, names)))
        folder = self.folder / "state" / owner / "agent-0"
        for partition, offset in committed.items():
            state = PartitionState.open(folder, self.name, partition)
            try:
                if state.offset != offset:
                    return False
            finally:
                state.close()
        return True

    def hide(self, *names: int) -> None:
        """Whoever has no replica of these partitions cannot restore them from now on."""
        for name in names:
            of = self.partition(name)
            state = PartitionState.open(self.folder / "mine", self.name, of)
            restore(self.store, state, of)
            fence = self.read().grants[of].fence
            record = write_snapshot(state, str(self.folder / "snapshots"), self.name, fence)
            state.close()
            assert (
                self.store.run(agent_side.snapshot(of, record, trim=False)) is SnapshotResult.DONE
            )
            self.store.door.ask("XTRIM", self.store.keys.changelog(of), "MAXLEN", 0)
            self.snapshots[name] = Path(record.url)
            Path(record.url).rename(f"{record.url}.away")

    def show(self, *names: int) -> None:
        for name in names:
            path = self.snapshots.pop(name)
            Path(f"{path}.away").rename(path)

    def spoil(self, *names: int) -> None:
        """The hidden snapshots are there again, with one byte that is wrong."""
        for name in names:
            path = self.snapshots[name]
            content = bytearray(Path(f"{path}.away").read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)

    def troubles(self, owner: str) -> dict[int, str]:
        """Why its replicas cannot go on, as it reports."""
        report = self.read().reports.get(self.ids[owner])
        replicas = report.replicas.items() if report else ()
        return {self.label(p.number): replica.why for p, replica in replicas if replica.why}

    # --- what the group does

    def replicas(self, owner: str) -> set[int]:
        """What it reports as learned, or as a standby at the end."""
        report = self.read().reports.get(self.ids[owner])
        replicas = report.replicas.items() if report else ()
        return {self.label(p.number) for p, replica in replicas if replica.ready}

    def settled(self, stateful: Mapping[str, Any] | None = None) -> None:
        """S1, S2 and S3 with 1 2, 3 4 and 5; from now on the group is stateful."""
        self.start("S1", "S2", "S3")
        self.ready("S1", "S2", "S3")
        until(lambda: sorted(map(len, self.owned().values())) == [1, 2, 2], "2, 2 and 1")
        running = [n for name in ("S1", "S2", "S3") for n in sorted(self.owned()[name])]
        self.numbers = {n + 1: self.numbers[name] for n, name in enumerate(running)}
        self.configure(stateful=True, **(stateful or {}))
        until(lambda: self.rounds() != [], "the first round of a stateful group, before any other")
        assert self.state() == {"S1": "a12", "S2": "a34", "S3": "a5"}

    def configure(self, **values: Any) -> None:
        self.group = groups.change_settings(self.group, values, by=By("ann", AuditSource.COMMAND))

    def read(self) -> GroupRead:
        return live_groups.read(self.name, Purpose.LOOK)

    def owned(self) -> dict[str, set[int]]:
        """What runs under a live lock of each member, by the names of the partitions."""
        read = self.read()
        found: dict[str, set[int]] = {name: set() for name in self.ids}
        for name, member in self.ids.items():
            for p, held in self.store.owned(member).items():
                lock = read.locks.get(p)
                if lock and lock.fence == held.fence and held.state is HeldState.RUNNING:
                    found[name].add(self.label(p.number))
        return found

    def fences(self) -> dict[int, int]:
        locks = sorted(self.read().locks.items())
        return {self.label(p.number): lock.fence for p, lock in locks}

    def state(self) -> State:
        """What is owned now and learned by the target."""
        names = {member: name for name, member in self.ids.items()}
        learning = {
            names[m]: {self.label(p.number) for p in row.learning}
            for m, row in self.read().target.items()
            if m in names
        }
        owned = self.owned()
        return {n: t for n in owned if (t := self._text(owned[n], learning.get(n, ())))}

    def rounds(self) -> list[State]:
        """Every round since the group became stateful: what it gave and let learn, without those
        that changed nothing.
        """
        found: list[State] = []
        for row in Rebalance.objects.filter(group=self.group).order_by("target_epoch"):
            if row.replicas is not None and (state := self._round(row)) not in (*found[-1:], {}):
                found.append(state)
        return found

    def _round(self, row: Rebalance) -> State:
        names = {member: name for name, member in self.ids.items()}
        texts = {
            names[member]: self._text(
                map(self.label, roles["assigned"]), map(self.label, roles["learning"])
            )
            for member, roles in row.roles.items()
        }
        return {name: text for name, text in sorted(texts.items()) if text}

    def label(self, number: int) -> int:
        return next(name for name, own in self.numbers.items() if own == number)

    @staticmethod
    def _text(assigned: Iterable[int], learning: Iterable[int]) -> str:
        parts = [("a", assigned), ("l", learning)]
        texts = (letter + "".join(map(str, sorted(ns))) for letter, ns in parts)
        return " ".join(text for text in texts if len(text) > 1)

    def until_rounds(self, *wanted: State) -> None:
        """These rounds came one after the other, and no other one that changes anything."""
        with suppress(AssertionError):
            until(lambda: len(self.rounds()) >= len(wanted))
        found = self.rounds()
        assert found == list(wanted), f"rounds: {found}"

    def until_state(self, **wanted: str) -> None:
        with suppress(AssertionError):
            until(lambda: self.state() == wanted)
        found = self.state()
        assert found == wanted, f"state: {found}"

    def scale_down(self) -> ScaleDown:
        return ScaleDown.objects.filter(group=self.group).latest("asked_at_ms")

    def outcomes(self) -> dict[str, str]:
        names = {member: name for name, member in self.ids.items()}
        entries = self.scale_down().members.items()
        return {names[member]: entry["outcome"] for member, entry in entries}
