"""A group brought to where a test begins, by the same code that does it in production."""

from collections.abc import Sequence

from dashboard import coordinator
from dashboard.models import Group
from tests.dashboard.agents import FakeAgent, tick

ROUNDS_MAX = 10


def settle(group: Group, agents: Sequence[FakeAgent]) -> None:
    """Until everybody holds what the target gives: rebalance, tick, follow."""
    for _ in range(ROUNDS_MAX):
        coordinator.rebalance(group.name, "task-1", "worker@here")
        for agent in agents:
            agent.follow()
        tick()
        if sum(len(agent.held) for agent in agents) == group.partitions and not waits(group):
            return
    raise AssertionError(f"{group.name} did not settle in {ROUNDS_MAX} rounds")


def waits(group: Group) -> bool:
    return group.rebalances.filter(outcome="running").exists()


def staffed(group: Group, *names: str) -> list[FakeAgent]:
    """Members that own all partitions between them, with history and a sample."""
    agents = [FakeAgent(group, name) for name in names]
    for agent in agents:
        agent.start()
    settle(group, agents)
    coordinator.sample()
    return agents
