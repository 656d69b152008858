"""The system that is struck: Redis, database, web, worker, beat, agents and a producer, all started
here, on loopback ports and in a folder of their own.

Whatever an agent says to Redis or to the dashboard goes through a forwarder of its own; the
dashboard and the producer share one. A part that dies stays dead until the run starts it again.
Should the run itself be killed, the tree's watchdog ends everything: nothing is left struck.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psutil

from dashboard.demo import options as demo_options
from dashboard.demo.embedded_redis import EmbeddedRedis, free_port
from dashboard.demo.options import COUNTERS, LIGHT, Options
from dashboard.demo.parts import ROOT, Parts, RedisPart
from dashboard.demo.tree import Process, Tree, TreeFailed, always
from dashboard.demo.web_health import answers
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.chaos.eye import Eye, Sample
from dashboard.evaluation.chaos.history import REDIS
from dashboard.evaluation.figures import name_of
from dashboard.evaluation.forwarder import Forwarder
from dashboard.evaluation.judge import Content
from dashboard.evaluation.redis_servers import Postgres, server
from dashboard.evaluation.system import COMMAND_TIMEOUT_S, Waiting, ask, load

GROUP = "chaos"  # and its stream
# Whatever this installation is set to.
OWN = {
    "DJANGO_SETTINGS_MODULE": "dashboard.settings",
    "EVENKEEL_HOSTS": "127.0.0.1",
    "EVENKEEL_ORIGINS": "",
    "EVENKEEL_BEHIND_PROXY": "0",
    "EVENKEEL_DEVELOPMENT": "1",
    "EVENKEEL_REDIS_PREFIX": "ek",
}
ACTS = "dashboard.evaluation.chaos.acts"
READY_S = {"light": 60.0, "spark": 300.0}
SETTLE_S = 90.0
DASHBOARD_S = 90.0
KEYS = 20
RATE = {"light": 200.0, "spark": 500.0}  # events a second in all
STOP_S = 15.0
TURN_S = 0.05


@dataclass(slots=True)
class Links:
    """What an agent has between itself and the others."""

    redis: Forwarder
    dashboard: Forwarder

    def both(self) -> tuple[Forwarder, Forwarder]:
        return self.redis, self.dashboard


@dataclass(slots=True)
class Agent:
    name: str
    part: Process
    links: Links


@dataclass(slots=True)
class World(Waiting):
    """Every method may raise TreeFailed, Refused, Stopped."""

    asked: Asked
    folder: Path
    say: Callable[[str], None]
    postgres: Postgres | None = None  # the database, where that is to be struck
    agents: dict[str, Agent] = field(default_factory=dict)
    links: dict[str, Links] = field(default_factory=dict)
    lock: int = field(init=False)
    tree: Tree = field(init=False)
    redis: RedisPart = field(init=False)
    name: Forwarder = field(init=False)  # Redis, as dashboard and producer know it
    parts: Parts = field(init=False)
    eye: Eye = field(init=False)
    services: dict[str, Process] = field(default_factory=dict)
    producer: Process | None = None
    ended: list[str] = field(default_factory=list)  # agents that ended though nobody struck them
    struck: set[str] = field(default_factory=set)  # those that may end or be dead
    eras: list[Content] = field(default_factory=list)  # what Redis held before it forgot
    closers: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lock = demo_options.lock_folder(self.folder)
        self.tree = Tree(lambda line: None, str(self.folder.resolve()), self.lock)
        self.tree.stop_on_signals()
        if "database-away" in self.asked.faults:
            self.postgres = Postgres()
            self.closers.append(self.postgres.close)
        self.effects.mkdir(parents=True, exist_ok=True)

    @property
    def group(self) -> str:
        return GROUP

    @property
    def effects(self) -> Path:
        """The consumers' own logs of their commits."""
        return self.folder / "effects"

    @property
    def acknowledged(self) -> Path:
        return self.folder / "acknowledged"

    # --- start

    def start(self) -> None:
        self.say("starting Redis and the database")
        self.redis = RedisPart(server(self.folder / "redis"))
        self.tree.start(self.redis)
        self.name = self._forwarder(self.redis.server.port or 0)
        options = Options(data=self.folder, port=free_port(), check=True)
        self.parts = Parts(options, self.redis_url(self.name))
        self.parts.environment["DATABASE_URL"] = (
            self.postgres.url if self.postgres else f"sqlite:///{self.folder / 'evenkeel.sqlite3'}"
        )
        self.parts.environment |= OWN
        self._prepare()
        self.say("starting web, worker and beat")
        self.services = {
            "web": self.parts.web(),
            "worker": self.parts.worker(),
            "beat": self.parts.beat(),
        }
        self._start_services(self.services)
        self.eye = Eye(self.redis.server.url, GROUP, self.asked.partitions, self.pids)
        self.closers.append(self.eye.close)
        if self.asked.coordination == "client":
            self.ask("switch", "client")
        self.say(f"starting {self.asked.agents} agents with {self.asked.consumer} consumers")
        self.start_agents(self.asked.names)
        self.wait_able(self.asked.names)

    def start_flow(self) -> None:
        self.producer = self._producer()
        self.tree.start(self.producer)

    def _forwarder(self, port: int) -> Forwarder:
        made = Forwarder(port)
        self.closers.append(made.close)
        return made

    def redis_url(self, through: Forwarder) -> str:
        parts = urlsplit(self.redis.server.url)
        address = f":{parts.password}@127.0.0.1:{through.port}"
        return urlunsplit(parts._replace(netloc=address))

    def _prepare(self) -> None:
        settings = self.asked.settings
        more = {n: v for n, v in settings.items() if n not in ("stream", "partitions")}
        size = ("--partitions", str(self.asked.partitions))
        self.parts.prepare("--group", GROUP, *size, "--check", "--settings", json.dumps(more))

    def ask(self, act: str, *arguments: str) -> Any:
        """What the module `acts` answers in a process that reaches the database."""
        return ask(act, self.parts.environment, ACTS, act, GROUP, *arguments)

    def command(self, name: str, *arguments: str) -> Any:
        """What a command of the product answers in JSON."""
        return ask(name, self.parts.environment, "django", name, *arguments)

    def begin(
        self, act: str, *arguments: str, answer: int = subprocess.DEVNULL
    ) -> "subprocess.Popen[bytes]":
        """As `ask`, not waited for."""
        return subprocess.Popen(
            [sys.executable, "-m", ACTS, act, GROUP, *arguments],
            env={**os.environ, **self.parts.environment},
            cwd=ROOT,
            stdout=answer,
            stderr=answer,
        )

    def ask_together(self, act: str, *each: Sequence[str]) -> list[Any]:
        """As `ask`, by a process for each at the same time; none of them is left."""
        begun: list[subprocess.Popen[bytes]] = []
        try:
            for arguments in each:
                begun.append(self.begin(act, *arguments, answer=subprocess.PIPE))
            self.wait(
                lambda: all(process.poll() is not None for process in begun),
                COMMAND_TIMEOUT_S,
                f"{act} was not done",
            )
            said = [process.communicate() for process in begun]
            for process, (_, errors) in zip(begun, said, strict=True):
                if process.returncode:
                    last = errors.decode(errors="replace").strip().splitlines()[-1:]
                    raise TreeFailed(f"{act} ended with {process.returncode}: {''.join(last)}")
            return [json.loads(out.splitlines()[-1]) for out, _ in said]
        finally:
            for process in begun:
                process.kill()
                process.communicate()

    def lead_to(self, new: EmbeddedRedis) -> None:
        """Every name of Redis leads to that server from now on."""
        self.redis.server = new
        for forwarder in (self.name, *(links.redis for links in self.links.values())):
            forwarder.switch(new.port or 0)
        self.eye.switch(new.url)

    def _start_services(self, services: Mapping[str, Process]) -> None:
        for part in services.values():
            self.tree.start(part, wait=False)
        self.wait_dashboard()
        self.tree.left_dead = tuple(self.tree.parts)

    def start_agents(self, names: Iterable[str]) -> None:
        """Does not wait. Who was there before comes back under its name, as a new member; who runs
        is let run: another fault that struck it too may have brought it back.
        """
        for name in names:
            self.struck.discard(name)
            if name in self.agents:
                if self.agents[name].part.pid is None:
                    self.agents[name].part.start()
                continue
            part = self._agent(name)
            self.agents[name] = Agent(name, part, self.links[name])
            self.tree.start(part, wait=False)
        self.tree.left_dead = tuple(self.tree.parts)

    def _agent(self, name: str) -> Process:
        links = self.links.setdefault(
            name,
            Links(
                self._forwarder(self.redis.server.port or 0),
                self._forwarder(self.parts.options.port),
            ),
        )
        return self.parts.agent(
            name,
            GROUP,
            f"http://127.0.0.1:{links.dashboard.port}",
            LIGHT if self.asked.consumer == "light" else COUNTERS,
            environment={
                "EVENKEEL_REDIS_URL": self.redis_url(links.redis),
                "EVENKEEL_LIGHT_LOG": str(self.effects),
                "EVENKEEL_SOCKET": "",
                "EVENKEEL_INSTANCE": f"{name}-static" if self.asked.is_static else "",
            },
            is_ready=always,
            stop_s=STOP_S,
        )

    def _producer(self) -> Process:
        rate, keys = RATE[self.asked.consumer], KEYS * self.asked.partitions
        return load(self.parts, GROUP, keys, rate, self.acknowledged, "--form", "lines")

    # --- who is here

    def pids(self) -> dict[str, int | None]:
        """Of those whom the group lives by, by agent, and of Redis."""
        agents = {name: agent.part.pid for name, agent in tuple(self.agents.items())}
        return {REDIS: self.redis.server.pid, **agents}

    def member_of(self, name: str, sample: Sample | None = None) -> str | None:
        """The id of the able member that this agent is now."""
        seen = sample or self.eye.last
        found = (m for m, able in seen.members.items() if able and name_of(m) == name)
        return next(found, None) if seen else None

    def wait_able(self, names: Iterable[str]) -> None:
        wanted = tuple(names)
        self.wait(
            lambda: self.eye.is_fresh and all(self.member_of(name) for name in wanted),
            READY_S[self.asked.consumer],
            f"the consumers of {', '.join(wanted)} were not ready",
        )

    def service(self, *names: str) -> list[psutil.Process]:
        """The processes of these services, with their children."""
        found: list[psutil.Process] = []
        for name in names:
            found += self.services[name].family
        return found

    def restart(self, *names: str) -> None:
        for name in names:
            self.services[name].start()
        self.wait_dashboard()

    def wait_dashboard(self) -> None:
        port = self.parts.options.port
        self.wait(lambda: answers(port, "/readyz"), DASHBOARD_S, "the dashboard was not ready")

    # --- time

    def turn(self) -> None:
        """A short wait, with a look at those that nobody struck. Raises Stopped."""
        self.tree.pause(TURN_S)
        for name, agent in self.agents.items():
            code = agent.part.exit_code()
            if code is not None and name not in self.struck:
                self.ended.append(f"{name} ended with {code}: {agent.part.why()}")
                self.struck.add(name)

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    # --- end

    def end_flow(self) -> None:
        """The producer ends: all that it sent is stored then."""
        if self.producer is not None and self.producer in self.tree.parts:
            self.tree.take_out(self.producer)
        self.producer = None

    def close(self) -> None:
        """In order, whatever stands; may be called at any moment."""
        if hasattr(self, "tree"):
            self.struck.update(self.agents)
            self.tree.stop()
        for close in reversed(self.closers):
            close()
        self.closers.clear()
        os.close(self.lock)
