"""The flights pipeline from end to end: replayed, processed on Spark, equal to pandas."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.pipelines.flights import PIPELINE
from agent.spark.pipeline import CHECK_VARIABLE
from assignment.types import START
from assignment.wire import unpack_ids
from dashboard.evaluation import flights_check, result
from tests.e2e.spark_world import SparkWorld, until

pytestmark = pytest.mark.spark
FLIGHTS = 3_000


@pytest.fixture
def world(redis_url: str, group_name: str, tmp_path: Path) -> SparkWorld:
    return SparkWorld(redis_url, group_name, tmp_path, partitions=4)


@pytest.mark.parametrize("form", ["arrow", "json"])
def test_result_equals_pandas(
    session: Any, world: SparkWorld, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv(CHECK_VARIABLE, "1")
    told = world.folder / "told"
    replay = [sys.executable, "-m", "agent.producer", "flights", "--stream", world.name]
    replay += ["--redis-url", world.url, "--speed", "0", "--limit", str(FLIGHTS), "--form", form]
    replay += ["--partitions", "4", "--acknowledged", str(told)]
    with world.consuming(PIPELINE, session):
        subprocess.run(replay, check=True, timeout=240)
        until(world.all_committed, "all flights")
    commits = {partition: world.changelog(partition) for partition in world.partitions}
    differences = flights_check.compare(result.merged(commits), flights_check.expected(FLIGHTS))
    assert differences == []
    ids = [i for entries in commits.values() for e in entries for i in unpack_ids(e.ids)]
    assert sorted(ids) == list(range(FLIGHTS))
    assert sorted(map(int, told.read_text().split())) == list(range(FLIGHTS))
    for entries in commits.values():
        ends = [START, *(entry.to_offset for entry in entries)]
        assert [entry.from_offset for entry in entries] == ends[:-1]
