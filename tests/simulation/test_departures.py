"""The check of who departs: it must see a lock that may still be run under, and nothing else."""

import pytest

from tests.simulation import checks
from tests.simulation.ledger import Broken
from tests.simulation.world import World

MEMBER = "a-1"


@pytest.fixture
def world() -> World:
    """One member that owns everything."""
    world = World(0, stateful=True, partitions=2)
    world.add("a")
    world.run_until(checks.settled, 20_000, "the group settles at the start")
    world.scale_downs.told.add(MEMBER)
    return world


def test_whoever_departs_under_a_live_lock_is_found(world: World) -> None:
    with pytest.raises(Broken, match="a-1 departs and owns"):
        world.scale_downs.departs(MEMBER)


def test_a_lock_that_ran_out_is_owned_no_more_although_no_sweep_has_seen_it(world: World) -> None:
    world.server.now_ms += world.settings.lease_ms + 1
    assert world.store.owned(MEMBER)
    world.scale_downs.departs(MEMBER)


def test_a_lock_whose_release_redis_lost_was_given_up(world: World) -> None:
    before = world.server.position
    agent = world.agents[0]
    agent.term()
    world.run_until(lambda w: not agent.membership.state.held, 5_000, "all is released")
    world.server.restart(before)
    assert checks.fences(world)[MEMBER]
    world.scale_downs.departs(MEMBER)
