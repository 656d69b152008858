"""Faults of members with an instance name (KIP-345): processes that stop and come back, or are two.

Drawn in place of others, for the seeds whose members have such names.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.agents import SimAgent

if TYPE_CHECKING:
    from tests.simulation.world import World

Victims = Sequence[SimAgent]
ROLL_MS = 900  # from one restart to the next


def _instances(world: "World", victims: Victims) -> Iterator[SimAgent]:
    """Those of the victims with a name; else one that comes for it."""
    named = [agent for agent in victims if agent.instance]
    yield from named or [world.add(f"i{len(world.agents)}", instance=True)]


def _restart(world: "World", agent: SimAgent, after_ms: int) -> None:
    agent.term()
    world.later(after_ms, agent.come_back)


def instance_restarts(world: "World", victims: Victims) -> None:
    for agent in _instances(world, victims):
        _restart(world, agent, world.random.randint(0, world.settings.instance_timeout_ms // 2))


def instance_comes_late(world: "World", victims: Victims) -> None:
    """About when it is not waited for any longer."""
    timeout_ms = world.settings.instance_timeout_ms
    for agent in _instances(world, victims):
        _restart(world, agent, world.random.randint(timeout_ms * 3 // 4, timeout_ms * 3 // 2))


def instances_roll(world: "World", victims: Victims) -> None:
    for n, agent in enumerate(_instances(world, world.living())):
        world.later(n * ROLL_MS, partial(_restart, world, agent, world.random.randint(0, 500)))


def instance_crashes(world: "World", victims: Victims) -> None:
    """Again and again, also while it is waited for."""
    for agent in _instances(world, victims):
        agent.kill()
        agent.restart_later()


def instance_doubled(world: "World", victims: Victims) -> None:
    """While it lives, or is just ending."""
    for agent in _instances(world, victims):
        if world.random.random() < 0.3:
            agent.term()
        world.add(agent.name, agent.left_on_disk(), instance=True)


def instance_replaced_asleep(world: "World", victims: Victims) -> None:
    """Another process takes over from one that stands still, and goes on later."""
    for agent in _instances(world, victims):
        agent.pause(world.random.randint(1, 5) * world.settings.session_timeout_ms)
        world.add(agent.name, agent.left_on_disk(), instance=True)


def instances_start_at_once(world: "World", victims: Victims) -> None:
    for agent in _instances(world, victims):
        if world.random.random() < 0.5:
            agent.kill()
        else:
            agent.term()
        for _ in range(2):
            delay_ms = world.random.randint(100, 1_500)
            again = partial(world.add, agent.name, agent.left_on_disk(), instance=True)
            world.later(delay_ms, again)


INSTANCE_FAULTS: dict[str, Callable[["World", Victims], None]] = {
    fault.__name__: fault
    for fault in (
        instance_restarts, instance_comes_late, instances_roll, instance_crashes, instance_doubled,
        instance_replaced_asleep, instances_start_at_once,
    )
}  # fmt: skip
