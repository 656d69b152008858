"""What the checks share: a run of their own, events that flow, processes to hurt, an evaluation.

Only processes of the run's own tree are hurt, each named by pid and start time.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from dashboard.demo import processes
from dashboard.demo.demo import Demo
from dashboard.demo.embedded_redis import free_port
from dashboard.demo.options import GROUP, Options
from dashboard.demo.parts import ROOT
from dashboard.demo.tree import Process, TreeFailed

FLIGHTS_IN_ALL = 336_776
FLIGHTS_PER_DAY = FLIGHTS_IN_ALL / 365
DAY_S = 86_400
EVALUATE_TIMEOUT_S = 600
COMMAND_TIMEOUT_S = 60
PROCESSED_S = 300.0  # from the last event to the last commit


def speed_for(flights: int, seconds: float) -> float:
    """Replayed seconds per second, so that so many flights take about so long."""
    return flights / FLIGHTS_PER_DAY * DAY_S / seconds


def now_ms() -> int:
    """Redis runs on this machine, so this is its clock too."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Run:
    """A demo in check mode: nothing is trimmed, commits carry the ids of their events."""

    demo: Demo
    say: Callable[[str], None]
    dice: random.Random
    producer: Process | None = None
    kills: int = 0
    members_hurt: list[str] = field(default_factory=list)

    @property
    def acknowledged(self) -> Path:
        return self.demo.options.data / "acknowledged"

    def start(self) -> None:
        self.demo.start_dashboard()
        self.demo.start_consumers()
        self.producer = self.demo.start_producer("--acknowledged", str(self.acknowledged))

    def end_flow(self) -> int:
        """Ends the producer; how many events it was told are stored."""
        if self.producer is not None and self.producer in self.demo.tree.parts:
            self.demo.tree.take_out(self.producer)
        with self.acknowledged.open("rb") as lines:
            return sum(1 for _ in lines)

    def produced(self) -> bool:
        """Whether the producer has come to its last flight."""
        return self.producer is not None and self.producer not in self.demo.tree.parts

    def member_of(self, consumer: Process) -> str:
        """Id of the member that this agent is now. Raises TreeFailed when it is none."""
        for member_id in self.demo.status()["members"]:
            if member_id.startswith(f"{consumer.name}-"):
                return str(member_id)
        raise TreeFailed(f"{consumer.name} is no member")

    def family(self, consumer: Process) -> list[psutil.Process]:
        """The agent, then its consumer with all that belongs to it."""
        return processes.with_children(consumer.pid) if consumer.pid else []

    def kill(self, consumer: Process) -> None:
        """SIGKILL to the agent and its consumer at once."""
        self.say(f"killing {self.member_of(consumer)} with its consumer")
        processes.kill(self.family(consumer))
        self.kills += 1

    def wait(self, condition: Callable[[], bool], seconds: float, failed: str) -> None:
        self.demo.tree.wait(condition, seconds, failed)

    def happens(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it comes true within that time."""
        until = time.monotonic() + seconds
        while not (found := condition()) and time.monotonic() < until:
            self.demo.tree.turn()
        return found

    def pass_time(self, seconds: float) -> None:
        """Lets so much time go by while the tree is looked after."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.demo.tree.turn()

    def wait_processed(self, events: int) -> None:
        self.say("waiting until every event is processed")
        self.wait(
            lambda: int(self.demo.status()["processed"]) >= events,
            PROCESSED_S,
            f"{events} events were not processed within {PROCESSED_S:.0f} s",
        )

    def command(self, *arguments: str) -> Mapping[str, Any]:
        """What a command of this project answers in JSON, asked as in a second terminal.

        Raises TreeFailed with the sentence it was refused with.
        """
        done = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments, "--json"],
            env={**os.environ, **self.demo.parts.environment},
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise TreeFailed(f"{arguments[0]}: {(done.stderr or done.stdout).strip()}")
        answer: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def evaluate(self, *arguments: str) -> Mapping[str, Any]:
        """The numbers of what was acknowledged, by a process that reads Redis and the database and
        nothing of this one.
        """
        self.say("evaluating")
        where = ("--acknowledged", str(self.acknowledged))
        done = subprocess.run(
            [sys.executable, "-m", "dashboard.evaluation.evaluate", GROUP, *where, *arguments],
            env={**os.environ, **self.demo.parts.environment},
            stdout=subprocess.PIPE,
            text=True,
            timeout=EVALUATE_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise TreeFailed(f"the evaluation failed: {done.stdout.strip() or 'see above'}")
        found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def evaluate_times(self, option: str, times: Sequence[Any]) -> Mapping[str, Any]:
        """Also of each of these times, one by one."""
        data = self.demo.options.data
        (data / "times.json").write_text(json.dumps([asdict(one) for one in times]))
        return self.evaluate(option, str(data / "times.json"), "--logs", str(data / "logs"))


@contextmanager
def own_run(
    say: Callable[[str], None], seed: int, make: type[Demo] = Demo, **options: Any
) -> Iterator[Run]:
    """A run in a folder of its own, which goes when all went well and is named when not."""
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-check-"))
    say(f"seed {seed}, folder {folder}")
    demo = make(Options(data=folder, port=free_port(), check=True, **options), say)
    demo.tree.stop_on_signals()
    try:
        yield Run(demo, say, random.Random(seed))
    except BaseException:
        demo.stop()
        say(f"the logs are in {folder / 'logs'}")
        raise
    demo.stop()
    shutil.rmtree(folder)
