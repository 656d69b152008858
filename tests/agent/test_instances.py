"""Agents with an instance name as real processes: restarted, doubled, replaced, late (KIP-345)."""

import os
import signal
import socket

from agent.config import ExitCode
from assignment.scripts.dashboard_side import configure
from assignment.types import Coordination, Reason
from tests.agent.conftest import AgentProcess, World, until

NAMES = ("east", "north", "west")


def coordinated(world: World, instance_timeout_ms: int) -> None:
    """By its agents."""
    settings = world.settings(instance_timeout_ms=instance_timeout_ms)
    mode = Coordination.CLIENT
    world.store.door.ask("DEL", world.store.keys.meta)
    world.store.run(configure(settings, Reason.SETTINGS, rebalance_due=False, coordination=mode))


def start(world: World, name: str) -> AgentProcess:
    return world.alone(name, "--instance", name)


def running(world: World) -> dict[str, dict[int, int]]:
    return {name: world.running(name) for name in world.read().members}


def until_all_run(world: World) -> dict[str, dict[int, int]]:
    until(lambda: sum(map(len, running(world).values())) == 4, "every partition runs")
    return running(world)


def is_able(world: World, name: str) -> bool:
    row = world.read().members.get(name)
    return bool(row and row.able and not row.away_since_ms)


def test_a_rolling_restart_of_all_ends_where_it_began_without_a_rebalance(world: World) -> None:
    coordinated(world, instance_timeout_ms=20_000)
    agents = {name: start(world, name) for name in NAMES}
    until(lambda: all(is_able(world, name) for name in NAMES), "all are able")
    until(lambda: world.read().meta.target_epoch == world.read().meta.group_epoch, "planned")
    until(lambda: all(running(world).values()), "each has taken what it is to own")
    first, meta = until_all_run(world), world.read().meta
    for name in NAMES:
        before = running(world)
        agents[name].send(signal.SIGTERM)
        assert agents[name].exit_code() == ExitCode.LEFT
        assert world.read().members[name].stopped
        agents[name] = start(world, name)
        until(lambda name=name: is_able(world, name), f"{name} is back")
        after = until_all_run(world)
        assert after.pop(name).keys() == before[name].keys()
        assert after == {other: own for other, own in before.items() if other != name}
    last = running(world)
    assert {name: own.keys() for name, own in last.items()} == {
        name: own.keys() for name, own in first.items()
    }
    assert all(last[n][p] > fence for n, own in first.items() for p, fence in own.items())
    now = world.read().meta
    assert (now.group_epoch, now.target_epoch) == (meta.group_epoch, meta.target_epoch)


def test_a_second_live_process_exits_3_and_names_the_host_of_the_first(world: World) -> None:
    agent = world.agent("a", "--instance", "east")
    until(lambda: is_able(world, "east"), "able")
    world.dashboard.assign({"east": range(4)})
    fences = world.until_running("east", {0, 1, 2, 3})
    second = world.agent("b", "--instance", "east")
    assert second.exit_code() == ExitCode.REFUSED
    host = socket.gethostname()
    assert second.events("another process may live")[0]["host"] == host
    assert second.events("refused")[0]["why"].endswith(f"{host} (HTTP 409)")
    assert world.running("east") == fences
    assert not agent.events("lost")


def test_an_instance_that_comes_back_too_late_has_left(world: World) -> None:
    coordinated(world, instance_timeout_ms=300)
    east, _ = start(world, "east"), start(world, "west")
    until(lambda: all(world.running(name) for name in ("east", "west")), "both run some")
    joined_at_ms = world.read().members["east"].joined_at_ms
    east.send(signal.SIGTERM)
    assert east.exit_code() == ExitCode.LEFT
    world.until_running("west", {0, 1, 2, 3})
    assert "east" not in world.read().members
    start(world, "east")
    until(lambda: world.running("east"), "it is given its share again")
    assert world.read().members["east"].joined_at_ms > joined_at_ms


def test_who_was_replaced_while_it_stood_still_does_nothing_more(world: World) -> None:
    first = world.agent("a", "--instance", "east")
    until(lambda: is_able(world, "east"), "able")
    world.dashboard.assign({"east": range(2)})
    before = world.until_running("east", {0, 1})
    group = os.getpgid(first.consumer_pid)
    os.killpg(group, signal.SIGSTOP)
    first.send(signal.SIGSTOP)
    second = world.agent("b", "--instance", "east")
    until(lambda: second.events("acquired"), "it took over")
    after = world.until_running("east", {0, 1})
    assert all(after[n] > before[n] for n in before)
    first.send(signal.SIGCONT)
    os.killpg(group, signal.SIGCONT)
    assert first.exit_code() == ExitCode.REFUSED
    assert len(first.events("acquired")) == 2
    assert world.running("east") == after
    assert not second.events("lost")
