"""The dashboard on a real PostgreSQL, from a wheel."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.store.door import RedisDoor
from assignment.types import Partition
from tests.beside import Suite
from tests.contract.world import World

ROOT = Path(__file__).parents[2]


def run(*arguments: str, **environment: str) -> str:
    """What a command of that process said; fails with all of it when the command failed."""
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout[-8_000:] + process.stderr[-4_000:]
    return process.stdout


@pytest.mark.postgres
@pytest.mark.timeout(900)  # a suite in one test
@pytest.mark.beside
def test_the_same_tests_hold_on_postgresql(suite_on_postgresql: Suite) -> None:
    failed, said = suite_on_postgresql.end()
    assert not failed, said


@pytest.mark.postgres
def test_commands_on_an_empty_postgresql_lead_to_an_exact_history(
    tmp_path: Path, postgres_url: str, redis_url: str, group_name: str
) -> None:
    """A database that no test has prepared: only `migrate` did."""

    def django(*arguments: str) -> str:
        return run(
            *("-m", "django", *arguments),
            DATABASE_URL=postgres_url,
            REDIS_URL=redis_url,
            EVENKEEL_DATA=str(tmp_path),
            EVENKEEL_REDIS_PREFIX=group_name,
            DJANGO_SETTINGS_MODULE="dashboard.settings",
        )

    def coordinate(call: str) -> None:
        django("shell", "-v", "0", "-c", f"from dashboard import coordinator; coordinator.{call}")

    def owner(at_ms: int) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            django("owner", group_name, "1", "--at", str(at_ms), "--json")
        )
        return answer

    django("migrate", "-v", "0")
    django("create_group", group_name, "--stream", group_name, "--partitions", "2")
    coordinate("tick()")
    world, partition = World(RedisDoor(redis_url), group_name), Partition(group_name, 1)
    world.join("a")
    world.report("a", 1, able=True)
    coordinate(f"rebalance({group_name!r})")
    fence = world.fence("a", partition)
    begun_ms = world.read().now_ms
    world.pass_ms(2)  # a tenure that ends in this very millisecond does not hold in it
    world.leave("a")
    world.pass_ms(2)
    ended_ms = world.read().now_ms

    held, after = owner(begun_ms), owner(ended_ms)
    assert (held["owner"], held["fence"], held["end"]) == ("a", str(fence), "released")
    assert held["from_ms"] <= begun_ms <= held["to_ms"] < ended_ms
    assert (after["owner"], after["doubtful"]) == (None, False)
    world.door.close()
