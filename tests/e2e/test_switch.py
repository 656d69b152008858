"""The switch on a whole system: real web, Celery, Redis and agents, which go on working."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assignment.types import Coordination
from dashboard.demo.embedded_redis import EmbeddedRedis, wheel_binary
from dashboard.models import AuditEntry
from tests.agent.conftest import ROOT
from tests.e2e.system import Fleet, System, running, until

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
ALL = (1, 2, 3, 4, 5)
# No lease ends by itself while many processes start on a busy machine.
PATIENT = {"lease_ms": 10_000, "renew_ms": 1_000, "session_timeout_ms": 6_000}


@pytest.fixture
def system(tmp_path: Path, transactional_db: None) -> Iterator[System]:
    redis = EmbeddedRedis(tmp_path / "redis", binary=wheel_binary())
    redis.start()
    try:
        with running(tmp_path, redis) as started:
            yield started
    finally:
        redis.stop()


@pytest.fixture
def fleet(system: System, group_name: str, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(system, group_name, tmp_path / "agents", PATIENT)
    fleet.folder.mkdir()
    yield fleet
    fleet.close()


def switch(fleet: Fleet, mode: str) -> int:
    """By the command, as a person runs it; its exit code."""
    command = [sys.executable, "manage.py", "coordination", fleet.name, mode]
    environ = fleet.system.environment
    done = subprocess.run([*command, "--reason", "a test"], cwd=ROOT, env=environ, check=False)
    return done.returncode


def shares(fleet: Fleet) -> list[int]:
    return sorted(map(len, fleet.owned().values()))


def test_a_group_at_work_goes_over_to_its_agents_and_back(fleet: Fleet) -> None:
    fleet.start("a", "b", "c")
    fleet.ready("a", "b", "c")
    until(lambda: shares(fleet) == [1, 2, 2], "all share")
    fleet.append(*ALL)
    fences, before = fleet.fences(), fleet.read().meta
    for mode in ("client", "server", "client"):
        assert switch(fleet, mode) == 0
        fleet.append(*ALL)
    until(lambda: fleet.store.door.ask("GET", fleet.store.keys.coordinator), "an agent computes")
    fleet.append(*ALL)
    after = fleet.read().meta
    assert fleet.fences() == fences
    assert after.event_seq == before.event_seq, "no lock was taken, given up or lost"
    assert (after.target, after.group_epoch) == (before.target, before.group_epoch)
    assert not any(agent.events("lost") for agent in fleet.agents.values())
    switched = AuditEntry.objects.filter(action="switch coordination").order_by("id")
    assert [e.after["mode_epoch"] for e in switched] == [2, 3, 4]

    fleet.system.kill("web", "worker", "beat")
    fleet.kill("c")
    until(lambda: shares(fleet) == [0, 2, 3], "without a dashboard others take over")
    until(lambda: switch(fleet, "server") == 3, "refused where no tick lives")
    assert fleet.read().meta.coordination is Coordination.CLIENT

    fences = fleet.fences()
    fleet.system.start()
    fleet.system.wait_ready()
    assert switch(fleet, "server") == 0
    assert fleet.fences() == fences
    fleet.kill("b")
    until(lambda: shares(fleet) == [0, 0, 5], "the dashboard computes again")
    fleet.append(*ALL)
