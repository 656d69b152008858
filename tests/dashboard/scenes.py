"""A group brought to where a test begins, by the same code that does it in production."""

import random
from collections.abc import Sequence
from typing import Any

from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.models import Group
from tests.dashboard.agents import FakeAgent, make_group, tick

ROUNDS_MAX = 10
OF_AGENTS = {"join": FakeAgent.start, "follow": FakeAgent.follow, "leave": FakeAgent.leave}
ACTIONS = ("join", "follow", "follow", "leave", "rebalance", "tick", "lose", "store")


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


def lived(name: str, store: Any, chance: random.Random, steps: int = 200) -> Group:
    """A group of six partitions whose members came, went and were lost; history has all of it."""
    group = make_group(name, partitions=6, lease_ms=300, renew_ms=60, session_timeout_ms=300)
    agents = [FakeAgent(group, f"m{n}") for n in range(4)]
    for _ in range(steps):
        agent, action = chance.choice(agents), chance.choice(ACTIONS)
        if action in OF_AGENTS:
            OF_AGENTS[action](agent)
        else:
            _to_group(action, group, agent, store)
    while coordinator.store_events(group := Group.objects.get(pk=group.pk)):
        pass
    return group


def _to_group(action: str, group: Group, agent: FakeAgent, store: Any) -> None:
    match action:
        case "rebalance":
            coordinator.rebalance(group.name)
        case "tick":
            tick()
        case "lose":  # a lock that runs out
            for partition in tuple(agent.held):
                store.delete(GroupKeys(group.name).lock(partition))
        case "store":
            coordinator.store_events(Group.objects.get(pk=group.pk))
