"""Agents that leave while no dashboard answers: nobody takes them for lost."""

import signal

import pytest

from agent.store.door import pairs
from assignment.types import Drain
from tests.agent.conftest import World, until


def end(world: World, how: str) -> None:
    (agent,) = world.agents
    member = world.member("a")
    if how == "signal":
        agent.send(signal.SIGTERM)
    else:
        world.dashboard.mark(Drain.LEAVING, member)
        until(lambda: agent.events("told to leave"), "told")
        world.dashboard.assign({member: []})


@pytest.mark.parametrize("how", ["signal", "scale-down"])
def test_it_leaves_in_redis_when_the_dashboard_is_away(world: World, how: str) -> None:
    agent = world.agent("a")
    member = world.member("a")
    world.dashboard.assign({member: [0]})
    world.until_running(member, {0})
    world.dashboard.stop()
    end(world, how)
    assert agent.exit_code() == 0
    read = world.read()
    assert (read.members, read.locks, read.target) == ({}, {}, {})
    assert [grant.ended for grant in read.grants.values()] == ["released"]
    entries = world.store.door.ask("XRANGE", world.store.keys.control, "-", "+")
    changes = [dict(pairs(flat)) for _, flat in entries]
    assert [c[b"reason"] for c in changes if c[b"member"].decode() == member][-1] == b"leave"


def test_a_dashboard_that_does_not_answer_in_time_is_not_waited_for(world: World) -> None:
    agent = world.agent("a")
    world.member("a")
    world.dashboard.answers.clear()
    until(lambda: world.read().members, "it is one")
    agent.send(signal.SIGTERM)
    assert agent.exit_code() == 0
    assert not world.read().members
    assert agent.events("left in Redis, no dashboard answered")


def test_a_dashboard_that_answers_is_the_one_that_lets_it_leave(world: World) -> None:
    agent = world.agent("a")
    world.member("a")
    agent.send(signal.SIGTERM)
    assert agent.exit_code() == 0
    assert len(world.dashboard.heard["leave"]) == 1
    assert not agent.events("left in Redis, no dashboard answered")
