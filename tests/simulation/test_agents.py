"""What one fault alone does to a settled group, in virtual time.

A seed that fails replays with `pytest -k seed2`; faults in any mixture are in test_seeds.py.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.config import ExitCode
from agent.store.door import ScriptCall
from assignment.scripts import dashboard_side
from assignment.scripts.group_read import Purpose
from assignment.types import Coordination
from tests.fakes.values import t
from tests.simulation import checks
from tests.simulation.agents import SimAgent
from tests.simulation.seeds import heal_ms
from tests.simulation.world import World, simulated


def settled(seed: int, members: int = 3, **changes: object) -> World:
    world = World(seed, **changes)
    for name in "abcdefgh"[:members]:
        world.add(name)
    world.run_until(checks.settled, 20_000, "the group settles at the start")
    world.restore_failures = world.slow_steps = 0.0
    return world


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with simulated():
        yield


@pytest.fixture(params=range(3), ids="seed{}".format)
def world(request: pytest.FixtureRequest) -> World:
    return settled(request.param)


def settles_again(world: World) -> int:
    return world.run_until(checks.settled, heal_ms(world), "settled again")


def moved(before: dict[str, dict[int, int]], after: dict[str, dict[int, int]], member: str) -> bool:
    """Whether a fence of that member changed for a partition that it had and has."""
    return any(after[member].get(n, f) != f for n, f in before[member].items())


def noted(world: World, name: str, text: str) -> bool:
    return any(text in f"{event} {fields}" for _, who, event, fields in world.trace if who == name)


def test_a_killed_members_partitions_are_owned_again_in_time_and_the_others_go_on(
    world: World,
) -> None:
    before = world.fences()
    world.agents[0].kill()
    took_ms = world.run_until(
        lambda w: "a-1" not in w.fences() and checks.settled(w), 10_000, "owned again"
    )
    after = world.fences()
    assert took_ms < world.settings.lease_ms + 2_000
    for member in ("b-1", "c-1"):
        assert not moved(before, after, member)
        assert before[member].keys() <= after[member].keys()


def test_a_term_expires_no_lease_and_refuses_no_commit(world: World) -> None:
    before = world.fences()
    world.agents[0].term()
    world.run_until(lambda w: w.agents[0].exit_code is not None, 3_000, "it ends")
    assert world.agents[0].exit_code == ExitCode.LEFT
    settles_again(world)
    events = world.server.rows(world.keys.events)
    assert {event[b"type"] for event in events} == {b"acquired", b"released"}
    assert not world.struck["commit refused"]
    assert not moved(before, world.fences(), "b-1")


@pytest.mark.parametrize(("stands_still", "leases"), [(SimAgent.pause, 2), (SimAgent.sleep, 3)])
def test_whoever_stood_still_for_leases_is_refused_and_starts_with_nothing(
    world: World, stands_still: Callable[[SimAgent, int], None], leases: int
) -> None:
    """Also when its clock stood still, so that only the fences know that its time is over."""
    had = world.fences()["a-1"]
    stands_still(world.agents[0], leases * world.settings.lease_ms)
    world.run_for(leases * world.settings.lease_ms)
    settles_again(world)
    assert all(world.fences()["a-1"].get(n) != fence for n, fence in had.items())
    assert noted(world, "a", "fenced")


def test_while_the_dashboard_is_away_nothing_stops_and_nothing_moves(world: World) -> None:
    before = world.fences()
    world.coordinators[0].crash()
    world.run_for(20_000)
    assert world.fences() == before
    world.coordinators[0].start()
    world.run_for(5_000)
    assert world.fences() == before


@pytest.mark.parametrize("seed", range(3))
def test_coordinators_that_die_and_return_move_nothing(seed: int) -> None:
    world = settled(seed, coordinators=3)
    before = world.fences()
    for coordinator in world.coordinators:
        coordinator.crash_chance = 0.3
    world.run(dashboard_side.request_rebalance("manual"))  # which they find nothing to move in
    world.run_for(10_000)
    assert world.struck["coordinator died at work"]
    assert world.fences() == before


def test_a_short_redis_restart_moves_nothing(world: World) -> None:
    before = {member: set(owned) for member, owned in world.fences().items()}
    world.server.down = True
    world.run_for(600)
    world.redis.returns()
    world.run_for(6_000)
    settles_again(world)
    assert {member: set(owned) for member, owned in world.fences().items()} == before


def test_a_hanging_consumer_is_restarted_and_owns_again(world: World) -> None:
    world.agents[0].process.hanging = True
    runs = world.agents[0].process.run
    world.run_until(lambda w: w.agents[0].process.run > runs, 6_000, "restarted")
    settles_again(world)
    assert world.fences()["a-1"]


def test_more_members_than_partitions_is_no_error() -> None:
    world = settled(1, members=5, partitions=3)
    world.run_for(2_000)
    owners = {m for m, owned in world.fences().items() if owned}
    for agent in world.agents:
        said = noted(world, agent.name, "idle: 3 partitions, 5 members")
        assert said or agent.member_id in owners
    assert len(owners) == 3


def test_of_many_agents_that_coordinate_one_reads_the_group_for_a_change() -> None:
    """Whole reads for a rebalance, whoever makes them, as at 1,000 members: only one computes."""
    world = World(3, coordinators=0, coordination=Coordination.CLIENT, partitions=60)
    members = [world.add_one() for _ in range(40)]
    world.run_until(checks.settled, 60_000, "the group settles at the start")
    world.restore_failures, reads, execute = 0.0, [], world.execute

    def counting(call: ScriptCall, *door: Any) -> Any:
        if call.name == "read_group" and t(call.args[0]) == Purpose.REBALANCE:
            reads.append(world.now_ms)
        return execute(call, *door)

    world.execute = counting  # type: ignore[method-assign]
    members[7].term()
    world.run_until(lambda w: not members[7].lives, 10_000, "one leaves")
    settles_again(world)
    targets = world.read().meta.target_epoch
    assert targets and 1 <= len(reads) <= 5
