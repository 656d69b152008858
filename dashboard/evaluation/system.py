"""Systems that are started to be struck: how they are waited for and asked, and the demo as a check
runs it, with events that flow, processes to hurt and an evaluation.

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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

from assignment.types import GroupSettings
from dashboard.demo import processes
from dashboard.demo.demo import Demo
from dashboard.demo.embedded_redis import free_port
from dashboard.demo.options import GROUP, LIGHT, Options
from dashboard.demo.parts import CONSUMER, ROOT, Parts
from dashboard.demo.tree import Process, TreeFailed
from dashboard.evaluation import evaluate
from dashboard.evaluation.figures import name_of

FLIGHTS_IN_ALL = 336_776
FLIGHTS_PER_DAY = FLIGHTS_IN_ALL / 365
DAY_S = 86_400
EVALUATE_TIMEOUT_S = 600
COMMAND_TIMEOUT_S = 120
WARM_S = 180.0
RECOVER_S = 120.0  # deadline of a wait, far above every bound: the bound is judged afterwards
LIGHT_KEYS, LIGHT_RATE = 20, 200.0  # of light consumers' events; the rate a second
PROCESSED_S = 300.0  # from the last event to the last commit
TIMINGS = GroupSettings(stream="any", partitions=1)  # of a group that nobody set


def speed_for(flights: int, seconds: float) -> float:
    """Replayed seconds per second, so that so many flights take about so long."""
    return flights / FLIGHTS_PER_DAY * DAY_S / seconds


def now_ms() -> int:
    """Redis runs on this machine, so this is its clock too."""
    return time.time_ns() // 1_000_000


class Waiting(ABC):
    """What waits, a turn at a time, and looks after what it started meanwhile."""

    __slots__ = ()

    @abstractmethod
    def turn(self) -> None:
        """A short wait. Raises what ends the run."""

    def happens(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it comes true within that time."""
        until = time.monotonic() + seconds
        while not (found := condition()) and time.monotonic() < until:
            self.turn()
        return found

    def wait(self, condition: Callable[[], bool], seconds: float, failed: str) -> None:
        """Raises TreeFailed."""
        if not self.happens(condition, seconds):
            raise TreeFailed(f"{failed} within {seconds:.0f} s")

    def pass_time(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.turn()


def run_program(
    environment: Mapping[str, str], *program: str, timeout_s: float, stderr: int | None = PIPE
) -> "subprocess.CompletedProcess[str]":
    """A module with its arguments, in a process that belongs to the system of that environment."""
    return subprocess.run(
        [sys.executable, "-m", *program],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "dashboard.settings", **environment},
        cwd=ROOT,
        stdout=PIPE,
        stderr=stderr,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def ask(
    what: str,
    environment: Mapping[str, str],
    *program: str,
    timeout_s: float = COMMAND_TIMEOUT_S,
    stderr: int | None = PIPE,
) -> Any:
    """What it answers in JSON in its last line. Raises TreeFailed with its last word."""
    done = run_program(environment, *program, timeout_s=timeout_s, stderr=stderr)
    if done.returncode:
        said = ((done.stderr or "") + done.stdout).strip().splitlines() or ["see above"]
        raise TreeFailed(f"{what}: {said[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def load(
    parts: Parts, stream: str, keys: int, rate: float, acknowledged: Path, *more: str
) -> Process:
    """A producer of events for counters, in the place of flights."""
    return parts.process(
        "producer",
        CONSUMER,
        "agent.pipelines.load",
        *("--stream", stream, "--keys", str(keys), "--rate", f"{rate:g}"),
        *("--acknowledged", str(acknowledged), *more),
    )


@dataclass(slots=True)
class Run(Waiting):
    """A demo in check mode: nothing is trimmed, commits carry the ids of their events."""

    demo: Demo
    say: Callable[[str], None]
    dice: random.Random
    producer: Process | None = None
    kills: int = 0

    @property
    def acknowledged(self) -> Path:
        return self.demo.options.data / "acknowledged"

    def start(self) -> None:
        self.demo.start_dashboard()
        self.demo.start_consumers()
        if self.demo.options.pipeline is LIGHT:  # they read no flights
            more = (GROUP, LIGHT_KEYS, LIGHT_RATE, self.acknowledged, "--form", "lines")
            self.producer = load(self.demo.parts, *more)
            self.demo.tree.start(self.producer)
        else:
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
            if name_of(member_id) == consumer.name:
                return str(member_id)
        raise TreeFailed(f"{consumer.name} is no member")

    def kill(self, consumer: Process) -> None:
        """SIGKILL to the agent and its consumer at once, whether it is a member or not."""
        self.say(f"killing {consumer.name} with its consumer")
        processes.kill(consumer.family)
        self.kills += 1

    def turn(self) -> None:
        """Raises TreeFailed, Stopped."""
        self.demo.tree.turn()

    def wait_at_work(self, batches: int) -> None:
        """Settled, and so many batches done: a consumer's first ones take many times as long, for
        Spark compiles what it runs.
        """
        self.demo.wait_settled()
        self.wait(
            lambda: int(self.demo.status().get("batches_min", 0)) >= batches,
            WARM_S,
            "the consumers did not get to work",
        )

    def wait_processed(self, events: int) -> None:
        self.say("waiting until every event is processed")
        self.wait(
            lambda: int(self.demo.status()["processed"]) >= events,
            PROCESSED_S,
            f"{events} events were not processed",
        )

    def command(self, name: str, *arguments: str) -> Mapping[str, Any]:
        """What a command of this project answers in JSON, asked as in a second terminal."""
        answer: Mapping[str, Any] = ask(
            name, self.demo.parts.environment, "django", name, *arguments, "--json"
        )
        return answer

    def evaluate(self, *arguments: str) -> Mapping[str, Any]:
        """The numbers of what was acknowledged, by a process that reads Redis and the database and
        nothing of this one.
        """
        self.say("evaluating")
        found: Mapping[str, Any] = ask(
            "the evaluation",
            self.demo.parts.environment,
            *(evaluate.__name__, GROUP, "--acknowledged", str(self.acknowledged), *arguments),
            timeout_s=EVALUATE_TIMEOUT_S,
            stderr=None,  # details of what is wrong
        )
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
