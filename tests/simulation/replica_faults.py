"""What happens to stateful groups alone: scale-downs and what goes wrong with replicas.

As in faults.py each takes the world and the agents that it strikes, at least one.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from assignment.coordinator import scale_down as rules
from assignment.types import Partition
from tests.simulation.faults import Fault, Victims, kill
from tests.simulation.scale_downs import Ask

if TYPE_CHECKING:
    from tests.simulation.agents import SimAgent
    from tests.simulation.world import World

LIMITS_MS = (None, None, 0, 500, 3_000)
ABORT_MS = (0, 2_500)  # after it was asked for: before, while and after learners are ready
PLANNINGS, PLANNED_MS = 10, (0, 60)  # some come between a target's making and storing
AWAITED_MS, LOOK_MS = 2_500, 5  # what a fault waits for
STANDBYS_MS = 1_500  # in which they come
LEARNERS_MS = (100, 1_500)  # from a change of the group to the death of one who learns by it


def by_name(*victims: "SimAgent") -> Ask:
    return lambda live: rules.leavers_by_name(live, [agent.member_id for agent in victims])


def scale_down_by_name(world: "World", victims: Victims) -> None:
    limit_ms = world.random.choice(LIMITS_MS)
    aborts = bool(limit_ms) and world.random.random() < 0.3
    world.scale_downs.start(by_name(*victims), limit_ms, aborts=aborts)


def scale_down_by_percent(world: "World", victims: Victims) -> None:
    percent, limit_ms = world.random.randint(20, 90), world.random.choice(LIMITS_MS)
    world.scale_downs.start(lambda live: rules.leavers_by_percent(live, percent), limit_ms)


def scale_down_aborted(world: "World", victims: Victims) -> None:
    """Once, or again and again."""
    for _ in range(world.random.choice((1, 1, 3))):
        scale_down_by_name(world, victims[:1])
        world.run_for(world.random.randint(*ABORT_MS))
        world.scale_downs.abort()


def scale_down_aborted_at_planning(world: "World", victims: Victims) -> None:
    """At the moment when the target that it needs is made, which is old when it is stored."""
    for _ in range(PLANNINGS):
        world.scale_downs.start(by_name(victims[0]))
        if world.scale_downs.running is None:
            return  # there is nobody else to take over, or Redis is away
        _run_until(world, lambda: _is_told(world))
        world.run_for(world.random.randint(*PLANNED_MS))
        world.scale_downs.abort()
        world.run_for(PLANNED_MS[1])


def scale_down_aborted_at_learning(world: "World", victims: Victims) -> None:
    """While replicas are far from ready, so that there are learners to be dropped."""
    world.scale_downs.abort()
    world.add_one()
    replicas_are_slow(world, world.living())
    world.scale_downs.start(by_name(victims[0]))
    _run_until(world, lambda: _is_told(world) and bool(_learned(world)))
    world.scale_downs.abort()


def scale_down_forced(world: "World", victims: Victims) -> None:
    world.scale_downs.start(by_name(victims[0]))
    world.later(world.random.randint(*ABORT_MS), world.scale_downs.force)


def swap_by_scale_down(world: "World", victims: Victims) -> None:
    """The newcomer may learn what the leaving one has (S8)."""
    world.add_one()
    world.scale_downs.start(by_name(victims[0]))


def newcomer(world: "World", victims: Victims) -> None:
    world.add_one()


def learner_dies(world: "World", victims: Victims) -> None:
    def learns(agent: "SimAgent") -> bool:
        target = agent.membership.state.target
        return target is not None and bool(target.learning)

    _dies_in_handover(world, learns)


def owner_in_handover_dies(world: "World", victims: Victims) -> None:
    _dies_in_handover(world, lambda agent: _learned(world) & agent.membership.state.held.keys())


def _run_until(world: "World", fact: Callable[[], bool]) -> None:
    """Or for a while."""
    latest_ms = world.now_ms + AWAITED_MS
    while not fact() and world.now_ms < latest_ms:
        world.run_for(LOOK_MS)


def _is_told(world: "World") -> bool:
    running = world.scale_downs.running
    return running is not None and running.told_at_ms is not None


def _dies_in_handover(world: "World", who: Callable[["SimAgent"], object]) -> None:
    """Some time after another came, for whom partitions are learned."""

    def strike() -> None:
        found = [agent for agent in world.living() if who(agent)]
        if found and not world.server.away:
            kill(world, [world.random.choice(found)])

    world.add_one()
    world.later(world.random.randint(*LEARNERS_MS), strike)


def _learned(world: "World") -> set[Partition]:
    return {p for learning in world.learning().values() for p in learning}


def replicas_are_slow(world: "World", victims: Victims) -> None:
    for agent in victims:
        if agent.manager:
            agent.manager.slow = True


def change_of_replicas(world: "World", victims: Victims) -> None:
    draw = world.random
    changes = (
        {"standby_replicas": draw.randint(0, 2)},
        {"learners_max": draw.randint(0, 2)},
        {"learn_partial_rebalance": draw.random() < 0.5},
        {"acceptable_lag_records": draw.choice((0, 5))},
    )
    world.database.settings = replace(world.settings, **draw.choice(changes))  # type: ignore[arg-type]


def lost_events_come_again(world: "World", victims: Victims) -> None:
    """Redis loses what a standby has, and its clock is behind: owners, under the fences that they
    have while no coordinator lives, commit other events up to the same ids.
    """
    if world.server.away:
        return
    world.database.settings = replace(world.settings, standby_replicas=1)
    world.run_for(STANDBYS_MS)
    if world.server.away:
        return
    strike, began_ms = world.redis.losing_writes(behind=True), world.redis_ms
    _run_until(world, lambda: _a_standby_is_above(world, began_ms))
    beside = (agent.coordinator for agent in world.living() if agent.coordinator)
    for coordinator in (*world.coordinators, *beside):
        coordinator.paused_until_ms = world.now_ms + AWAITED_MS
    strike()


def _a_standby_is_above(world: "World", ms: int) -> bool:
    return any(
        replica.offset.ms > ms and partition not in agent.membership.state.held
        for agent in world.living()
        for partition, replica in agent.disk.items()
    )


REPLICA_FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        scale_down_by_name, scale_down_by_percent, scale_down_aborted,
        scale_down_aborted_at_planning, scale_down_aborted_at_learning, scale_down_forced,
        swap_by_scale_down, newcomer, learner_dies, owner_in_handover_dies,
        replicas_are_slow, change_of_replicas, lost_events_come_again,
    )
}  # fmt: skip
