"""Every sentence of the contract is tried on the fake, two real servers and a Redis Cluster."""

from collections.abc import Iterator

import pytest

from agent.store.cluster import door_to as door_at
from agent.store.door import Door, Timeouts
from assignment.types import Claim
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.evaluation.cluster_servers import Cluster
from tests.contract.one_slot import OneSlot
from tests.contract.world import P0, World
from tests.fakes import FakeDoor

SERVERS = ("valkey", "redis62")  # which have all keys
KINDS = ("fake", *SERVERS, "in_cluster")
PATIENT = Timeouts(connect_s=10.0, answer_s=10.0)  # the machine may be busy


@pytest.fixture(scope="session")
def valkey(valkey_server: EmbeddedRedis) -> Iterator[Door]:
    yield from door_to(valkey_server)


@pytest.fixture(scope="session")
def redis62(redis_62_server: EmbeddedRedis) -> Iterator[Door]:
    yield from door_to(redis_62_server)


@pytest.fixture(scope="session")
def in_cluster(cluster: Cluster) -> Iterator[Door]:
    yield from door_to(cluster)


def door_to(server: EmbeddedRedis | Cluster) -> Iterator[Door]:
    door = door_at(server.url, PATIENT)
    yield door
    door.close()


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, group_name: str) -> World:
    fake = request.param == "fake"
    door = FakeDoor(OneSlot()) if fake else request.getfixturevalue(request.param)
    return World(door, group_name)


@pytest.fixture(params=SERVERS)
def real_world(request: pytest.FixtureRequest, group_name: str) -> World:
    return World(request.getfixturevalue(request.param), group_name)


@pytest.fixture
def alone(world: World) -> World:
    """Member `a` alone may acquire P0."""
    world.stand(a={P0})
    return world


@pytest.fixture
def fence(alone: World) -> int:
    """Under which `a`, alone in its group, runs P0."""
    return alone.running("a", P0)


@pytest.fixture
def moved(world: World) -> tuple[int, int]:
    """P0's fences: of `a`, which lost it, and of `b`, which was granted it then."""
    (old,) = world.runs(a={P0}, b=set())
    world.let_expire("a", Claim(P0, old))
    world.assign(b={P0})
    return old, world.fence("b", P0)
