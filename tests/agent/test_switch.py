"""Who computes changes while agents work: nothing pauses, nothing moves, no fence changes."""

import signal

import pytest

from assignment.scripts.dashboard_side import set_mode
from assignment.types import Coordination
from tests.agent.conftest import World, until
from tests.agent.test_client_coordination import until_shared

CLIENT, SERVER = Coordination.CLIENT, Coordination.SERVER


def switch(world: World, mode: Coordination) -> None:
    assert world.store.run(set_mode(world.read().meta.mode, mode, "ann", "a test")).done


def at_work(world: World) -> tuple[str, str]:
    """Two members that share the partitions as a dashboard gave them."""
    a, b = world.member("a"), world.member("b")
    world.dashboard.assign({a: [0, 1], b: [2, 3]})
    world.until_running(a, {0, 1})
    world.until_running(b, {2, 3})
    return a, b


def fences(world: World, *members: str) -> list[dict[int, int]]:
    return [world.running(member) for member in members]


def test_a_switch_to_client_and_back_moves_nothing_and_changes_no_fence(world: World) -> None:
    agents = [world.agent("a"), world.agent("b")]
    a, b = at_work(world)
    held, before = fences(world, a, b), world.read().meta

    def computing() -> list[str]:
        """The last word of each agent."""
        said = ("coordinates", "coordinates no more")
        words = ([e["event"] for e in agent.events() if e["event"] in said] for agent in agents)
        return sorted(found[-1] for found in words if found)

    for _ in range(2):
        switch(world, CLIENT)
        until(lambda: "coordinates" in computing(), "an agent computes")
        switch(world, SERVER)
        until(lambda: "coordinates" not in computing(), "no agent computes")
    after = world.read().meta
    assert fences(world, a, b) == held
    assert after.target == before.target and after.group_epoch == before.group_epoch
    assert after.event_seq == before.event_seq  # no lock was taken, given up or lost
    assert after.mode_epoch == before.mode_epoch + 4
    assert not any(agent.events("lost") + agent.events("revoking") for agent in agents)


def test_after_a_switch_to_client_agents_compute_what_is_due(world: World) -> None:
    """One that waits for a lock at that moment asks again under the new mode."""
    world.agent("a"), world.agent("b")
    a, b = at_work(world)
    held = fences(world, a, b)
    world.agent("c")
    c = world.member("c")  # nobody computes: the dashboard decides nothing by itself
    assert fences(world, a, b, c) == [*held, {}]
    switch(world, CLIENT)
    until_shared(world, a, b, c)
    kept = [
        world.running(m).items() & before.items() for m, before in zip((a, b), held, strict=True)
    ]
    assert sum(map(len, kept)) == 3  # one moved, to the one that had none


def test_back_in_server_mode_the_dashboard_decides(world: World) -> None:
    world.agent("a"), world.agent("b")
    a, b = at_work(world)
    switch(world, CLIENT)
    switch(world, SERVER)
    world.dashboard.assign({a: [0], b: [1, 2, 3]})
    world.until_running(b, {1, 2, 3})
    world.until_running(a, {0})


@pytest.mark.parametrize("long", [False, True], ids=["within its session", "longer"])
def test_an_agent_that_slept_through_the_switch_comes_back_under_the_new_mode(
    world: World, long: bool
) -> None:
    first, second = world.agent("a"), world.agent("b")
    a, b = at_work(world)
    held = fences(world, a, b)
    second.send(signal.SIGSTOP)
    switch(world, CLIENT)
    if long:
        world.until_running(a, {0, 1, 2, 3})
    second.send(signal.SIGCONT)
    if long:
        until_shared(world, a, b)
    else:
        until(lambda: first.events("coordinates") or second.events("coordinates"), "one computes")
        assert fences(world, a, b) == held
    first.process.kill()
    world.until_running(b, {0, 1, 2, 3})
    assert list(world.read().members) == [b]
