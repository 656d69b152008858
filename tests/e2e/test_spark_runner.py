"""The consumer as a program beside an agent: it starts, says ready, and ends when it must."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.consumer.control import monotonic_ms
from assignment.wire import SOCKET_VARIABLE
from tests.e2e.spark_world import SparkWorld, one, until

pytestmark = pytest.mark.spark
LEASE_LEFT_MS = 4_000  # at each renew, as with a lease of 5 s
PIPELINE = """
from pyspark.sql import functions as F
from agent.spark.pipeline import Pipeline
from agent.spark.runner import main

def changes(events):
    return events.groupBy("partition", "key").agg(F.count("*").alias("n"))

main(Pipeline(
    name="counts", schema="key string", changes=changes,
    merge=lambda old, change: (old or 0) + change["n"],
))
"""


class Agent:
    """The other end of a consumer's socket; renews until told to stop."""

    def __init__(self, world: SparkWorld, path: Path) -> None:
        self.control = asdict(world.control())
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(1)
        self.hello: dict[str, Any] = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            self.hello = json.loads(connection.makefile().readline())
            lease = {"lease_end_ms": monotonic_ms() + LEASE_LEFT_MS}
            self._send(connection, self.control | lease)
            with contextlib.suppress(BrokenPipeError):  # the consumer ended
                while not self.ended.wait(0.2):
                    self._send(connection, {"lease_end_ms": monotonic_ms() + LEASE_LEFT_MS})

    def _send(self, connection: socket.socket, message: dict[str, Any]) -> None:
        connection.sendall(json.dumps(message).encode() + b"\n")

    def vanish(self) -> None:
        """Its pipe closes, as when it is killed."""
        self.ended.set()
        self.thread.join()


@pytest.fixture
def agent(world: SparkWorld, tmp_path: Path) -> Iterator[Agent]:
    made = Agent(world, tmp_path / "socket")
    yield made
    made.ended.set()
    made.listener.close()


@pytest.fixture
def consumer(agent: Agent, tmp_path: Path) -> Iterator[psutil.Popen]:
    program = tmp_path / "counts.py"
    program.write_text(PIPELINE)
    environment = {**os.environ, SOCKET_VARIABLE: str(tmp_path / "socket")}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent.parent)
    with (tmp_path / "log").open("wb") as log:
        started = psutil.Popen(
            [sys.executable, str(program)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    yield started
    if started.is_running():
        for process in [*started.children(recursive=True), started]:
            process.kill()


def ready(world: SparkWorld, consumer: psutil.Popen, log: Path) -> None:
    def is_ready() -> bool:
        assert consumer.poll() is None, log.read_text()[-3000:]
        health = world.health()
        return health is not None and health.state == "ready"

    until(is_ready, "the consumer")


def test_consumer_ends_after_its_agent_and_leaves_nobody(
    world: SparkWorld, agent: Agent, consumer: psutil.Popen, tmp_path: Path
) -> None:
    ready(world, consumer, tmp_path / "log")
    world.append(world.partitions[0], one(key="a"), one(key="b"))
    until(world.all_committed, "the events")
    assert world.health().spark_application_id.startswith("local-")
    assert agent.hello["stateful"] is True
    family = consumer.children(recursive=True)
    assert any("java" in process.name() for process in family)
    vanished = time.monotonic()
    agent.vanish()
    consumer.wait(timeout=60)
    assert time.monotonic() - vanished < 30  # no wall-clock promise: it does end by itself
    until(lambda: not any(p.is_running() and p.status() != "zombie" for p in family), "orphans")


def test_consumer_ends_in_order_when_asked(
    world: SparkWorld, agent: Agent, consumer: psutil.Popen, tmp_path: Path
) -> None:
    ready(world, consumer, tmp_path / "log")
    world.append(world.partitions[0], one(key="a"))
    consumer.send_signal(signal.SIGTERM)
    assert consumer.wait(timeout=60) == 0
    assert world.health().state == "dead"
    assert world.committed()[0] in ((0, 0), world.end(world.partitions[0]))


def test_consumer_without_an_agent_says_so(tmp_path: Path) -> None:
    program = tmp_path / "counts.py"
    program.write_text(PIPELINE)
    environment = {k: v for k, v in os.environ.items() if k != SOCKET_VARIABLE}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent.parent)
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 3
    assert SOCKET_VARIABLE in (done.stdout + done.stderr).decode()
