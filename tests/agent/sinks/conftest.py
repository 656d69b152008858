"""A sink's database and a group to go with it."""

from pathlib import Path

import pytest

from agent.spark.sql_sink import sqlite_sink
from tests.agent.sinks.sink_world import GROUP, Database, write_rows
from tests.contract.world import P0, P1, World
from tests.fakes import FakeDoor, FakeRedis


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(sqlite_sink(str(tmp_path / "sink.sqlite3"), write_rows))


@pytest.fixture
def world() -> World:
    """A group on the fake Redis in which "a" may take the partitions, and after it "b"."""
    world = World(FakeDoor(FakeRedis()), GROUP)
    world.stand(a={P0, P1})
    world.join("b")
    return world
