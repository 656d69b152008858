"""A group on real servers: one of the whole run, or one that a test may stop and kill."""

from collections.abc import Iterator

import pytest

from agent.store.door import RedisDoor
from dashboard.demo.embedded_redis import EmbeddedRedis
from tests.contract.conftest import PATIENT, real_world, redis62, valkey
from tests.contract.world import World

__all__ = ["own_world", "real_world", "redis62", "valkey"]


@pytest.fixture
def own_world(own_redis: EmbeddedRedis, group_name: str) -> Iterator[World]:
    door = RedisDoor(own_redis.url, PATIENT)
    yield World(door, group_name)
    door.close()
