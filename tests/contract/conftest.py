"""Every sentence of the contract is tried on the fake and on two real servers."""

from collections.abc import Iterator

import pytest

from agent.store import Door, RedisDoor, Timeouts
from tests.contract.world import World
from tests.fakes import FakeDoor, FakeRedis

KINDS = ("fake", "valkey", "redis62")
PATIENT = Timeouts(
    connect_s=10.0, answer_s=10.0
)  # the machine may be busy; nothing here tests time


@pytest.fixture(scope="session")
def doors(request: pytest.FixtureRequest) -> Iterator[dict[str, Door]]:
    made: dict[str, Door] = {
        "valkey": RedisDoor(request.getfixturevalue("valkey_server").url, PATIENT),
        "redis62": RedisDoor(request.getfixturevalue("redis_62_server").url, PATIENT),
    }
    yield made
    for door in made.values():
        door.close()


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, doors: dict[str, Door], group_name: str) -> World:
    door = FakeDoor(FakeRedis()) if request.param == "fake" else doors[request.param]
    return World(door, group_name)


@pytest.fixture(params=KINDS[1:])
def real_world(request: pytest.FixtureRequest, doors: dict[str, Door], group_name: str) -> World:
    return World(doors[request.param], group_name)
