"""Whoever computes: the same reports give the same target (coordination.md section 4)."""

import random
from pathlib import Path
from typing import Any

import pytest

from agent.coordination.effects import RedisEffects
from agent.coordination.memory import Memory
from agent.store.door import RedisDoor
from assignment.coordinator import effects
from assignment.coordinator.rebalance import rebalance
from assignment.types import Coordination
from dashboard.coordinator.carrying import Here, perform
from dashboard.models import Group
from tests.contract.random_ops import Generator
from tests.contract.side import Side
from tests.contract.world import World
from tests.fakes import FakeDoor, FakeRedis

COMPARED_EVERY = 5  # operations


def target_by(coordination: Coordination, world: World, group: Group, folder: Path) -> Any:
    """What would be stored of it."""
    world.door.ask("HSET", world.keys.meta, "coordination", coordination.value)
    memory = Memory(str(folder), group.name)
    by_agent = RedisEffects(world.store, "a", lambda *_, **__: None, memory)
    here = Here(group.name, group)
    stored: list[Any] = []

    def carry_out(effect: effects.Effect[Any]) -> Any:
        if isinstance(effect, effects.SetTarget):
            change = effect.record.change
            stored.append((effect.record.rows, effect.left_out, effect.record.causes, change))
            return "only looked at"
        if coordination is Coordination.CLIENT:
            return by_agent.perform(effect)
        return perform(here, effect)

    return stored or effects.run(rebalance(coordination), carry_out), stored


@pytest.mark.parametrize("seed", range(12))
def test_agents_and_server_compute_the_same(
    group: Group, redis_url: str, tmp_path: Path, seed: int
) -> None:
    world, compared = World(RedisDoor(redis_url), group.name), 0
    world.door.ask("DEL", world.keys.meta)
    model, real = Side(World(FakeDoor(FakeRedis()), group.name)), Side(world)
    for number, operation in enumerate(Generator(random.Random(seed), model.world).operations()):
        model.do(operation)
        real.do(operation)
        if number > 4 and number % COMPARED_EVERY == 0:
            world.request_rebalance()
            world.door.ask("DEL", world.keys.asked)  # nobody is waited for
            model.world.request_rebalance()
            by_server, by_agents = (target_by(who, world, group, tmp_path) for who in Coordination)
            assert by_server == by_agents
            compared += bool(by_server[1])
    assert compared
