"""SIGKILL to `up` itself under load, and another `up` at once on the same folder.

A producer of somebody else's runs across it: whatever was acknowledged to it must have an effect.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from assignment.types import Partition
from dashboard.demo import processes
from dashboard.demo.embedded_redis import free_port
from dashboard.demo.options import GROUP, Options
from dashboard.demo.parts import ROOT, read_status
from dashboard.demo.tree import TreeFailed
from dashboard.evaluation import flights_check
from dashboard.evaluation.checks import checked_up, redis_judge
from dashboard.evaluation.checks.redis_judge import ENDS_ALL, Step, not_judged
from dashboard.evaluation.checks.redis_run import (
    above,
    is_back,
    records_of,
    settled_history,
)
from dashboard.evaluation.inspecting import Server, acknowledged
from dashboard.evaluation.judge import effects, joined
from dashboard.evaluation.system import PROCESSED_S, RECOVER_S, TIMINGS, Waiting, now_ms
from dashboard.live.connection import StoreUnavailable

START_S = 900.0  # three consumers, one after the other, each as long as the tree allows it
LOAD_S = 20.0  # of events before the kill, and after the return
END_S = 60.0
POLL_S = 0.5
FOREIGN_IDS = 1_000_000_000  # above every id of the replay
FOREIGN_EVENTS = 50_000
FOREIGN_PER_S = 50.0
HOW = "SIGKILL to `up`, another one at once; a producer of somebody else's ran across it"


@dataclass(slots=True)
class Up(Waiting):
    """One data folder, and whoever was started on it."""

    folder: Path
    port: int
    say: Callable[[str], None]
    started: list[psutil.Process] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {
            "EVENKEEL_DATA": str(self.folder),
            "REDIS_URL": self.redis_url,
            "PYTHONPATH": str(ROOT),
        }

    @property
    def redis_url(self) -> str:
        return (self.folder / "redis_url").read_text().strip()

    @property
    def options(self) -> Options:
        return checked_up.options(self.folder, self.port)

    def turn(self) -> None:
        time.sleep(POLL_S)

    def start(self) -> None:
        with (self.folder / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", checked_up.__name__, str(self.folder), str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_running(self, since_ms: int) -> None:
        """Until every partition is owned by the consumers of this start. Raises TreeFailed."""

        def runs() -> bool:
            assert self.process is not None, "it was started"
            if self.process.poll() is not None:
                raise TreeFailed(f"`up` ended with {self.process.returncode}: {self.last_line()}")
            status = read_status(self.folder / "status.json") or {}
            fresh = status.get("at_ms", 0) > since_ms and status.get("ready")
            return bool(fresh and len(status["members"]) >= self.options.consumers)

        self.wait(runs, START_S, "`up` did not get to own every partition")

    def last_line(self) -> str:
        lines = (self.folder / "up.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def kill(self) -> None:
        """SIGKILL to the supervisor alone. What it had started is noted, to be ended one day."""
        assert self.process is not None, "it was started"
        top, *rest = processes.with_children(self.process.pid)
        self.started += rest
        top.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.started += processes.with_children(self.process.pid)[1:]
            self.process.terminate()
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        processes.kill(self.started)

    def seen(self) -> Server:
        return Server(self.redis_url, GROUP, GROUP, self.options.partitions)


class Foreign:
    """`evenkeel-producer` with lines of JSON, some every second."""

    def __init__(self, up: Up) -> None:
        self.file = up.folder / "foreign-acknowledged"
        with (up.folder / "foreign.log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "agent.producer", "--stream", GROUP),
                    *("--key", "key", "--id", "id", "--acknowledged", str(self.file)),
                ],
                stdin=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "EVENKEEL_REDIS_URL": up.redis_url, "PYTHONPATH": str(ROOT)},
            )
        self.log = up.folder / "foreign.log"
        self.lines = flights_check.json_lines(FOREIGN_EVENTS, FOREIGN_IDS)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._feed)
        self.thread.start()

    def _feed(self) -> None:
        assert self.process.stdin is not None, "it was asked for"
        try:
            for line in self.lines:
                if self.over.wait(1 / FOREIGN_PER_S):
                    break
                self.process.stdin.write(f"{line}\n".encode())
                self.process.stdin.flush()
            self.process.stdin.close()
        except OSError:
            pass  # it has ended; its exit code says why

    def end(self) -> int:
        """Its exit code once all that it read is stored. Raises TreeFailed."""
        self.over.set()
        self.thread.join()
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired as error:
            raise TreeFailed(f"the producer did not end within {END_S:.0f} s") from error

    def close(self) -> None:
        self.over.set()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.thread.join()


def up_killed(say: Callable[[str], None], logs: Path | None) -> Step:
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-check-up-"))
    say(f"step {ENDS_ALL}: folder {folder}")
    up = Up(folder, free_port(), say)
    try:
        up.start()
        up.wait_running(now_ms())
        foreign = Foreign(up)
        try:
            return struck(up, foreign)
        finally:
            foreign.close()
    except (TreeFailed, StoreUnavailable) as error:
        return not_judged(ENDS_ALL, f"no quiet start: {error}")
    finally:
        up.close()
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
            for log in (*folder.glob("*.log"), *folder.glob("logs/*")):
                shutil.copy(log, logs)
        shutil.rmtree(folder, ignore_errors=True)


def struck(up: Up, foreign: Foreign) -> Step:
    problems: list[str] = []
    owners, recorded = up.seen().ownership().locks, records_of(up.environment)
    time.sleep(LOAD_S)
    address = up.redis_url
    up.say("killing `up`, and starting it again at once")
    up.kill()
    began_ms = now_ms()
    try:
        up.start()
        up.wait_running(began_ms)
        if up.redis_url != address:
            problems.append("the new `up` has another Redis address")
        recovered_ms = recovery_ms(up)
        time.sleep(LOAD_S)
        if code := foreign.end():
            problems.append(f"the producer ended with {code}")
        return judged(up, foreign, Before(owners, recorded), recovered_ms, problems)
    except (TreeFailed, StoreUnavailable) as error:
        return redis_judge.broken(ENDS_ALL, HOW, [*problems, str(error)])


def recovery_ms(up: Up) -> int | None:
    base, began_s = up.seen().ownership(), time.monotonic()
    if not up.happens(lambda: is_back(up.seen().ownership(), base), RECOVER_S):
        return None
    return round((time.monotonic() - began_s) * 1_000)


@dataclass(frozen=True, slots=True)
class Before:
    owners: Mapping[Partition, tuple[str, int]]
    recorded: Mapping[str, Any]


def judged(
    up: Up, foreign: Foreign, before: Before, recovered_ms: int | None, problems: list[str]
) -> Step:
    stored = set(acknowledged(foreign.file))
    seen = up.seen()
    ends = seen.ends()
    if not up.happens(lambda: seen.has_committed(ends), PROCESSED_S):
        problems.append(f"not every event was processed within {PROCESSED_S:.0f} s")
    now = seen.content()
    found = effects(stored, joined(now))
    records, missing = settled_history(
        lambda: records_of(up.environment),
        lambda: seen.ownership().locks,
        above(now.events, before.owners),
        before.recorded,
        up.pass_time,
    )
    return Step(
        name=ENDS_ALL,
        how=f"{HOW}; {len(stored)} of its events were acknowledged",
        recovered_ms=recovered_ms,
        bound_ms=redis_judge.bound_of(ENDS_ALL, TIMINGS),
        lost=len(found.lost),
        doubled=len(found.doubled),
        destroyed=redis_judge.reported(
            records["audit"][len(before.recorded["audit"]) :], foreign.log.read_text()
        ),
        destroyed_counted=len(found.destroyed),
        moves_without_cause=redis_judge.moves_without_cause(
            now.events, before.owners, {"consumer-1", "consumer-2", "consumer-3"}
        ),
        agents_ended=len({member for member, _ in before.owners.values()}),
        history_complete=not missing,
        problems=(*problems, *found.faults[:3]),
    )
