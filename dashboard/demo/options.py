"""What `up` is asked for, and whether this machine can do it. Refusals are one sentence each."""

import errno
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from dashboard.demo.files import lock_file

FLIGHTS = (sys.executable, "-m", "agent.pipelines.flights")
COUNTERS = (sys.executable, "-m", "agent.pipelines.counters")
LIGHT = (sys.executable, "-m", "agent.pipelines.light")  # without Spark
GROUP = "flights"  # group and stream of the demo have the same name
AGENTS_URL = "agents_redis_url"  # file in DATA: what an agent with a token is told
AGENT_TOKEN, PRODUCER_TOKEN = "agent_token", "producer_token"  # files in DATA
BASE_MIB = 840  # web, worker with three children and a ticker, beat, watch, producer, Redis
WEB_MIB, WORKER_MIB = 150, 470  # of each more
CONSUMER_MIB = 900  # a local Spark consumer with its agent (pipeline.md section 7)
LIGHT_MIB = 120  # the same without Spark
LOCK_WAIT_S = 20.0  # how long the watchdog of an `up` that was killed may take to clean up


class Refused(RuntimeError):
    """The tree is not started; one sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`speed`: replayed seconds per second, 0 = as fast as it goes. `check`: nothing is trimmed.

    `stateful` False: a partition that moves is restored by its new owner after the acquire.
    `webs` behind the one `port`; `database_url` "": what the environment says, else SQLite.
    """

    data: Path
    port: int
    consumers: int = 3
    standbys: int = 0
    stateful: bool = True
    partitions: int = 12
    speed: float = 3600.0
    flights: int | None = None
    demo: bool = True
    check: bool = False
    pipeline: tuple[str, ...] = FLIGHTS  # the consumers' command
    consumer_mib: int = CONSUMER_MIB  # of memory for each
    webs: int = 1
    workers: int = 1
    database_url: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise Refused(f"port {port} cannot be used: {error.strerror}") from error
            raise Refused(
                f"port {port} is taken by another program: choose another one with --port"
            ) from error


def free_mib() -> int:
    """The memory that may still be used: less than the machine's where a cgroup allows less."""
    available = psutil.virtual_memory().available
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        if limit != "max":
            available = min(available, int(limit) - used)
    except (OSError, ValueError):
        pass
    return int(available // 2**20)


def check_memory(
    consumers: int, free: int, consumer_mib: int = CONSUMER_MIB, *, webs: int = 1, workers: int = 1
) -> None:
    needed = BASE_MIB + consumers * consumer_mib
    needed += (webs - 1) * WEB_MIB + (workers - 1) * WORKER_MIB
    if free < needed:
        raise Refused(
            f"{consumers} consumers need about {needed} MiB of memory and {free} MiB are free:"
            " start fewer with --consumers"
        )


def check_memory_of_one_more(free: int) -> None:
    if free < CONSUMER_MIB:
        raise Refused(
            f"another consumer needs about {CONSUMER_MIB} MiB of memory and {free} MiB are free"
        )


def lock_folder(data: Path) -> int:
    """An open, locked file: one tree per data folder. The watchdog keeps it until all has ended."""
    try:
        (data / "logs").mkdir(parents=True, exist_ok=True)
        lock = lock_file(data / "up.lock", LOCK_WAIT_S)
    except OSError as error:
        raise Refused(f"the data folder {data} cannot be used: {error.strerror}") from error
    if lock is None:
        raise Refused(
            f"the data folder {data} is in use by another `up`: end it, or choose another"
            " folder with --data"
        )
    return lock
