"""What a system has taken until a moment: CPU and memory of its parts, commands and connections of
Redis, bytes and rows of the database. Two such readings tell what lies between them.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from dashboard.demo.parts import kind_of
from dashboard.evaluation.beside.programs import cpu_of, families
from dashboard.evaluation.load import counted
from dashboard.evaluation.load.watching import Watch
from dashboard.evaluation.system import Run, ask

PARTS = {"web": "web", "worker": "worker", "beat": "worker", "redis": "redis"}
PERIOD_S = 10.0  # in which each task of beat's schedule is run a whole number of times
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`began_s`: when the reading did. `cpu_s`, `mib`: by PARTS; memory is private, and of what is
    shared its share.
    `redis_commands`: since its start, those that scripts run included, without the check's own.
    `web_connections`: open at its port.
    """

    began_s: float
    at_s: float
    cpu_s: Mapping[str, float]
    mib: Mapping[str, float]
    redis_commands: int
    redis_mib: float
    redis_clients: int
    web_connections: int
    database_bytes: int
    rows: int
    rebalances: int
    samples: int

    def as_values(self) -> dict[str, Any]:
        return asdict(self)


def read(run: Run, watch: Watch) -> Reading:
    """Raises TreeFailed. The database is asked first: that takes a second, and CPU of its own."""
    began_s = time.monotonic()
    stored = ask("counting what is stored", run.demo.parts.environment, counted.__name__)
    info = watch.client.info("everything")
    of = families(run)
    return Reading(
        began_s=began_s,
        at_s=time.monotonic(),
        cpu_s=summed({name: cpu_of(family) for name, family in of.items()}),
        mib=summed({name: mib_of(family) for name, family in of.items()}),
        redis_commands=info["total_commands_processed"] - watch.asked,
        redis_mib=info["used_memory"] / MIB,
        redis_clients=info["connected_clients"],
        web_connections=sum(
            connections_of(one)
            for name, family in of.items()
            if kind_of(name) == "web"
            for one in family
        ),
        database_bytes=stored["bytes"],
        rows=stored["rows"],
        rebalances=stored["rebalances"],
        samples=stored["samples"],
    )


def summed(of: Mapping[str, float]) -> dict[str, float]:
    """By kind of process, however many there are of it, of the figures of a tree's parts."""
    found = dict.fromkeys(PARTS.values(), 0.0)
    for name, value in of.items():
        if (kind := PARTS.get(kind_of(name))) is not None:
            found[kind] += value
    return found


def mib_of(family: list[psutil.Process]) -> float:
    found = 0.0
    for one in family:
        with suppress(psutil.Error):
            found += one.memory_full_info().pss / MIB
    return found


def connections_of(process: psutil.Process) -> int:
    """Of its clients: what it listens on is where they come in."""
    every = process.net_connections("tcp")
    ports = {one.laddr.port for one in every if one.status == psutil.CONN_LISTEN}
    open_ones = (one for one in every if one.status == psutil.CONN_ESTABLISHED)
    return sum(one.laddr.port in ports for one in open_ones)
