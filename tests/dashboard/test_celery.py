"""Real prefork workers, each with its ticker, and a real beat: without a worker no rebalance, and
/readyz says why; without beat all goes on that keeps partitions owned.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from django.test import Client

from assignment.scripts.group_read import Purpose
from dashboard import coordinator, priority
from dashboard.actions import groups
from dashboard.demo import processes
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.live import groups as live_groups
from dashboard.live import health
from dashboard.models import AuditSource, Group, Rebalance
from dashboard.priority import AUTOGROUP
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, until
from tests.dashboard.conftest import Point
from tests.dashboard.environments import own_environment

pytestmark = pytest.mark.django_db(transaction=True)
STOP_TIMEOUT_S = 20
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(
    point_at: Point, own_redis: EmbeddedRedis, group_name: str, tmp_path: Path
) -> Iterator[Start]:
    """Starts a Celery process on this test's database and Redis; all of them end with the test."""
    point_at(own_redis.url)
    environment = os.environ | own_environment(own_redis.url, group_name, tmp_path)
    started: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str) -> "subprocess.Popen[bytes]":
        with (tmp_path / f"{arguments[0]}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "dashboard.celery", *arguments],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,  # as `up` and systemd do
            )
        started.append(process)
        return process

    yield run
    for process in started:
        stop(process)


def stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ready(client: Client) -> tuple[int, list[str]]:
    answer = client.get("/readyz")
    return answer.status_code, answer.json()["why"]


def join(group: Group, name: str) -> None:
    """As the agents' routes do it: the group changes, then the bell is rung."""
    FakeAgent(group, name).start()
    coordinator.want_rebalance(group.name)


WORKER = ("worker", "--pool=prefork", "--concurrency=2", "--without-mingle")
FAST = {
    "lease_ms": 3_000, "renew_ms": 1_000, "session_timeout_ms": 3_000, "heartbeat_ms": 1_000,
    "grace_ms": 1_000,
}  # fmt: skip


def made(name: str, **settings: int) -> Group:
    by = By("ann", AuditSource.PAGE)
    return groups.create_group(name, stream=name, partitions=8, by=by, **settings)


def test_without_beat_members_are_evicted_and_what_they_owned_goes_to_others(
    start: Start, group_name: str, client: Client
) -> None:
    """Also by the ticker of another worker, when the one whose share it was is killed."""
    names = [f"{group_name}-{n}" for n in range(4)]
    alive = [made(name, **FAST) for name in names]
    one, two = start(*WORKER, "--hostname=one@test"), start(*WORKER, "--hostname=two@test")
    until(lambda: health.look().tickers == 2, 60)
    until(lambda: ready(client) == (200, []), 30)  # with the end of a first round
    come_and_go(alive, "a", 1)
    one.kill()  # itself alone: its ticker ends with it
    until(lambda: health.look().tickers == 1, 30)
    come_and_go(alive, "b", 2)
    assert two.poll() is None


def come_and_go(alive: Sequence[Group], name: str, rebalances: int) -> None:
    """A member of each group: it is given all, and evicted when it beats no more."""
    agents = [FakeAgent(group, name) for group in alive]
    for agent in agents:
        agent.join()

    def are_given() -> bool:
        for agent in agents:
            agent.beat()
            coordinator.want_rebalance(agent.group.name)
        return all(group.rebalances.count() >= rebalances for group in alive)

    def members() -> list[str]:
        return [m for g in alive for m in live_groups.read(g.name, Purpose.LOOK).members]

    until(are_given, 30)
    until(lambda: not members(), 30)


def test_a_ticker_that_ends_is_begun_anew(start: Start, group_name: str) -> None:
    made(group_name)
    worker = start(*WORKER)
    until(lambda: health.look().tickers == 1, 60)
    [ticker] = [p for p in processes.with_children(worker.pid) if is_ticker(p)]
    children = [p for p in psutil.Process(worker.pid).children() if p != ticker]
    assert [p.nice() for p in children] == [priority.NICE] * 2, "tasks wait for others"
    assert ticker.nice() == 0 and os.getsid(ticker.pid) == ticker.pid, "ticks do not"
    if AUTOGROUP.exists():
        assert [session_nice(of) for of in (worker.pid, ticker.pid)] == [priority.NICE, 0]
    ticker.kill()
    family = processes.with_children
    until(lambda: [p for p in family(worker.pid) if is_ticker(p) and p != ticker], 30)
    stop(worker)
    assert not [p for p in psutil.process_iter() if is_ticker(p) and str(worker.pid) in words(p)]


def session_nice(pid: int) -> int:
    return int(Path(f"/proc/{pid}/autogroup").read_text().split()[-1])


def is_ticker(process: psutil.Process) -> bool:
    return any("coordinator.ticker" in word for word in words(process))


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


def test_a_stopped_worker_stops_rebalances_and_nothing_is_lost(
    start: Start, group_name: str, client: Client
) -> None:
    group = groups.create_group(
        group_name, stream=group_name, partitions=8, by=By("ann", AuditSource.PAGE)
    )
    worker = (*WORKER, "--hostname=w@test")
    first = start(*worker)
    start("beat")
    until(lambda: ready(client)[0] == 200, 60)

    join(group, "a")
    row = until(Rebalance.objects.first, 30)
    assert row.celery_worker == "w@test"
    assert row.celery_task_id
    assert row.owners() == ["a"] * 8

    stop(first)
    for name in "bcd":
        join(group, name)
    status, why = until(lambda: (found := ready(client))[0] == 503 and found, 60)
    assert status == 503
    assert "no Celery worker answers; no rebalance happens" in why[0]
    assert Rebalance.objects.count() == 1

    start(*worker)
    until(lambda: Rebalance.objects.count() > 1, 60)
    until(lambda: ready(client)[0] == 200, 30)
    assert Rebalance.objects.count() == 2, "one for all that gathered"
    row = Rebalance.objects.order_by("target_epoch").last()
    assert row is not None
    assert {c["member"] for c in row.causes if c["reason"] == "join"} == set("bcd")
    assert sorted(str(owner) for owner in row.owners()) == sorted("abcd" * 2)
    meta = live_groups.read(group.name, Purpose.LOOK).meta
    assert meta.target_epoch == meta.group_epoch == row.target_epoch
