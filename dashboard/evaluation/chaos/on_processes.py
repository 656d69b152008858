"""Faults that strike processes: agents, their consumers, and the dashboard's services."""

from collections.abc import Iterator

import psutil

from dashboard.demo import processes
from dashboard.evaluation.chaos.strikes import Strike, fault

SUSPENDED_LEASES = (0.5, 1.0, 2.0, 5.0)


def kill_all(killed: list[psutil.Process]) -> bool:
    """Whether there were some, and all are gone."""
    processes.kill(killed)
    left = psutil.wait_procs(killed, processes.KILLED_S)[1]
    return bool(killed) and not left


@fault("kill", "kill-agent")
def kill(one: Strike) -> Iterator[None]:
    """SIGKILL to agent and consumer, or to the agent alone; started again as a new instance."""
    world = one.world
    killed: list[psutil.Process] = []
    try:
        for name in one.victims:
            world.struck.add(name)
            family = one.world.agents[name].part.family
            killed += family if one.name.endswith("kill") else family[:1]
        one.worked = kill_all(killed)
        yield
    finally:
        world.start_agents(one.victims)
        world.wait_able(one.victims)


@fault("kill-consumer")
def kill_consumer(one: Strike) -> Iterator[None]:
    """Its agent starts another one."""
    killed = [p for name in one.victims for p in one.world.agents[name].part.family[1:]]
    one.worked = kill_all(killed)
    one.world.pass_time(one.world.asked.timings.heartbeat_ms / 1_000)
    one.world.wait_able(one.victims)
    one.is_over = True
    yield


@fault("suspend")
def suspend(one: Strike) -> Iterator[None]:
    """SIGSTOP to the agent, to its consumer or to both, for some leases."""
    world = one.world
    who = one.dice.choice(("agent", "consumer", "both"))
    leases = one.dice.choice(SUSPENDED_LEASES)
    one.how = f"{who} for {leases:g} leases"
    families = [one.world.agents[name].part.family for name in one.victims]
    stopped = [p for f in families for p in {"agent": f[:1], "consumer": f[1:]}.get(who, f)]
    try:
        processes.each(stopped, psutil.Process.suspend)
        one.worked = bool(stopped) and world.happens(lambda: all(map(is_stopped, stopped)), 1.0)
        world.pass_time(leases * world.asked.timings.lease_ms / 1_000)
    finally:
        processes.each(stopped, psutil.Process.resume)
    one.is_over = True
    yield


def is_stopped(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() == psutil.STATUS_STOPPED)


@fault("web-kill", "worker-kill", "beat-kill", "dashboard-kill")
def service_kill(one: Strike) -> Iterator[None]:
    world = one.world
    service = one.name.removesuffix("-kill")
    names = tuple(world.services) if service == "dashboard" else (service,)
    killed = world.service(*names)
    one.worked = kill_all(killed)
    try:
        yield
    finally:
        world.restart(*names)
