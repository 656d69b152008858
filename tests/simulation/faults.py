"""Faults of evaluation.md, by name: what each does to a world and to its victims.

Each takes the world and the agents that it strikes, at least one. What does not end by itself is
ended by `heal`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from assignment.scripts import dashboard_side
from tests.fakes.server import LOADING, MASTERDOWN
from tests.simulation.agents import SimAgent
from tests.simulation.network import LIES, Network
from tests.simulation.targets import BALANCED

if TYPE_CHECKING:
    from tests.simulation.world import World

Victims = Sequence[SimAgent]
Fault = Callable[["World", Victims], None]
LEASES = (0.5, 1, 2, 5)  # how long a process stands still
MEMBERS_AT_ONCE = 3
FLAPS = 4
AWAY_MS = (200, 4_000)
PARTITIONS_MAX = 24  # of a group that gets more of them
JUMPS_MS = (-3_000, -700, 700, 3_000)
FAR_MS = (60_000, 3_600_000)
LOST_WRITES_MS = (50, 1_000)  # a Redis with appendonly everysec loses at most a second
OLDER_MS = (1_000, 6_000)  # a copy, put back
LAGGING_MS = (0, 2_000)
SUSPENDED_MS = (1_000, 12_000)
RESTARTED_MAX = 20  # members; in hundreds of them the others are enough to see


# --- kill and suspend -----------------------------------------------------------------------------


def kill(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.kill()
        agent.restart_later()


def kill_agent(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.kill_agent()
        agent.restart_later()


def kill_consumer(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.process.kill()


def hang_consumer(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.process.hanging = True


def slow_consumer(world: "World", victims: Victims) -> None:
    """Batches take longer than the grace."""
    for agent in victims:
        agent.process.slow = 20


def pause_ms(world: "World") -> int:
    return int(world.settings.lease_ms * world.random.choice(LEASES))


def suspend(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.pause(pause_ms(world))


def suspend_agent(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.pause(pause_ms(world), consumer=False)


def suspend_consumer(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.pause(pause_ms(world), agent=False)


def machine_sleeps(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.sleep(pause_ms(world))


# --- loss and partition ---------------------------------------------------------------------------


def storm(world: "World", victims: Victims) -> None:
    """A bad network for everybody, for a while."""
    before = world.network
    world.network = Network(0.08, 0.08, 0.08, 0.08, 0.5, (1, 400), (50, 4_000))
    world.later(world.random.randint(*AWAY_MS), lambda: setattr(world, "network", before))


def cut_from_redis(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.cut_from_redis(True)
        world.later(world.random.randint(*AWAY_MS), partial(agent.cut_from_redis, False))


def cut_from_dashboard(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.cut_from_dashboard = not agent.cut_from_dashboard


def flap(world: "World", victims: Victims) -> None:
    """On and off, each for about a session."""
    for agent in victims:
        for turn in range(FLAPS):
            in_ms = turn * world.settings.session_timeout_ms * 5 // 4
            world.later(in_ms, partial(agent.cut_off, turn % 2 == 0))


# --- membership -----------------------------------------------------------------------------------


def join(world: "World", victims: Victims) -> None:
    for _ in range(world.random.randint(1, MEMBERS_AT_ONCE)):
        world.add_one()


def leave(world: "World", victims: Victims) -> None:
    for agent in victims:
        agent.term()


def leave_at_once(world: "World", victims: Victims) -> None:
    """The second signal comes before the batch in hand has ended."""
    for agent in victims:
        agent.term()
        world.later(world.random.randint(0, 300), agent.term)


def swap(world: "World", victims: Victims) -> None:
    victims[0].term()
    world.add_one()


def down_to_one(world: "World", victims: Victims) -> None:
    """And up again: 1 -> N -> 1."""
    living = world.living()[: RESTARTED_MAX + 1]
    for agent in living[1:]:
        agent.term()
    for n in range(len(living) - 1):
        world.later(world.random.randint(500, 3_000) + n, world.add_one)


def more_than_partitions(world: "World", victims: Victims) -> None:
    for _ in range(len(world.living()), min(world.settings.partitions, 16) + 1):
        world.add_one()


def newcomer_never_beats(world: "World", victims: Victims) -> None:
    """Joins, reads its target and renews; its heartbeats never arrive."""
    world.add_one().beats = False


def dies_at_each_join(world: "World", victims: Victims) -> None:
    """A process that is started again and again, and ends before its first heartbeat."""
    world.join_again_and_again(f"m{len(world.agents)}-dies", anew=world.random.random() < 0.5)


def reports_nonsense(world: "World", victims: Victims) -> None:
    for agent in victims[:1]:
        agent.misfit, agent.lies = True, world.random.choice(LIES)


def wrong_redis(world: "World", victims: Victims) -> None:
    """An agent whose Redis is not the dashboard's: empty, or that of a group of the same name."""
    world.add_misfit(world.random.random() < 0.5)


# --- planned --------------------------------------------------------------------------------------


def rolling_restart(world: "World", victims: Victims) -> None:
    for n, agent in enumerate(world.living()[:RESTARTED_MAX]):
        world.later(n * 700, agent.term)
        world.later(n * 700 + 300, world.add_one)


def touch(world: "World", victims: Victims) -> None:
    """A person asks for a rebalance."""
    if not world.server.away and world.read().meta.settings is not None:
        world.run(dashboard_side.request_rebalance("manual"))


def coordination_switch(world: "World", victims: Victims) -> None:
    """Now and perhaps back soon, with whatever else happens meanwhile."""
    world.switch()
    for _ in range(world.random.randint(0, 2)):
        world.later(world.random.randint(*AWAY_MS), world.switch)


def change_strategy(world: "World", victims: Victims) -> None:
    strategy = world.random.choice(BALANCED)
    world.database.settings = replace(world.settings, strategy=strategy)


def add_partitions(world: "World", victims: Victims) -> None:
    more = world.settings.partitions + world.random.randint(1, 4)
    if more <= PARTITIONS_MAX:
        world.database.settings = replace(world.settings, partitions=more)


def restores_fail(world: "World", victims: Victims) -> None:
    world.restore_failures = 0.8


# --- the dashboard and its database ---------------------------------------------------------------


def dashboard_dies(world: "World", victims: Victims) -> None:
    """All of its processes; they come back one by one."""
    for coordinator in world.coordinators:
        coordinator.crash()
        world.later(world.random.randint(*AWAY_MS), coordinator.start)


def coordinators_die_at_work(world: "World", victims: Victims) -> None:
    for coordinator in world.coordinators:
        coordinator.crash_chance = 0.2


def coordinator_pauses(world: "World", victims: Victims) -> None:
    """Between two steps of its work: what it read is old when it goes on."""
    coordinator = world.random.choice(world.coordinators)
    coordinator.paused_until_ms = world.now_ms + pause_ms(world)


def database_slow(world: "World", victims: Victims) -> None:
    """Every step of a coordinator takes long: what it decides is old when it is carried out."""
    world.slow_steps = 0.7
    world.later(world.random.randint(*AWAY_MS), world.steps_are_quick)


def steps_are_suspended(world: "World", victims: Victims) -> None:
    """A tick or a worker stands still between two steps, and goes on much later."""
    world.slow_steps, world.slow_step_ms = 0.1, SUSPENDED_MS
    world.later(world.random.randint(*AWAY_MS), world.steps_are_quick)


def database_refuses(world: "World", victims: Victims) -> None:
    """Every write, as a full disk or a primary that became a replica; a failover goes on."""
    world.database.refuses = True
    world.later(world.random.randint(*AWAY_MS), lambda: setattr(world.database, "refuses", False))
    kill(world, victims[:1])


def database_restored(world: "World", victims: Victims) -> None:
    """From a copy that is a little older; what people set is set again."""
    copy = world.database.copied()
    world.later(world.random.randint(*AWAY_MS), lambda: world.database_returns_as(copy))


def judged_slowly(world: "World", victims: Victims) -> None:
    """Silent for about a session, and back while a slow coordinator takes it out."""
    for agent in victims:
        longer_ms = world.random.randint(0, world.settings.session_timeout_ms)
        agent.pause(world.settings.session_timeout_ms + longer_ms, consumer=False)
    database_slow(world, victims)


# --- Redis ---------------------------------------------------------------------------------------


def redis_away(world: "World", victims: Victims) -> None:
    if not world.server.down:
        world.server.down = True
        world.later(world.random.randint(*AWAY_MS) // 2, world.redis.returns)


def redis_loses_writes(world: "World", victims: Victims) -> None:
    """Its last ones, as a machine does that loses power; or it is put back from a copy."""
    lost_ms = world.random.choice((LOST_WRITES_MS, LOST_WRITES_MS, OLDER_MS))
    world.redis.lose_writes_after(world.random.randint(*lost_ms))


def redis_fails_over(world: "World", victims: Victims) -> None:
    """To a replica that is behind."""
    world.redis.lose_writes_after(world.random.randint(*LAGGING_MS), world.redis.fail_over)


def redis_fails_over_under_its_old_run(world: "World", victims: Victims) -> None:
    """To one that was the primary before: only replication tells."""
    happens = partial(world.redis.fail_over, same_run=True)
    world.redis.lose_writes_after(world.random.randint(*LAGGING_MS), happens)


def redis_refuses(world: "World", victims: Victims) -> None:
    """It loads its data, or waits for a primary."""
    text, for_ms = world.random.choice((LOADING, MASTERDOWN)), world.random.randint(*AWAY_MS)
    world.server.refuse(text, for_ms)


def redis_loses_grants(world: "World", victims: Victims) -> None:
    """The writes that it loses are those of a handover."""
    leave(world, victims)
    world.later(
        world.random.randint(0, 150), lambda: world.redis.lose_writes_after(LOST_WRITES_MS[1])
    )


def redis_wiped(world: "World", victims: Victims) -> None:
    world.redis.wipe()


def redis_clock_jumps(world: "World", victims: Victims) -> None:
    world.redis.clock_jumps(world.random.choice(JUMPS_MS))


def redis_clock_is_set(world: "World", victims: Victims) -> None:
    """By up to an hour."""
    world.redis.clock_jumps(world.random.choice((-1, 1)) * world.random.randint(*FAR_MS))


FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        kill, kill_agent, kill_consumer, hang_consumer, slow_consumer, suspend, suspend_agent,
        suspend_consumer, machine_sleeps, storm, cut_from_redis, cut_from_dashboard, flap,
        join, leave, leave_at_once, swap, down_to_one, more_than_partitions,
        newcomer_never_beats, dies_at_each_join, reports_nonsense, wrong_redis, rolling_restart,
        touch, change_strategy, add_partitions, restores_fail,
        dashboard_dies, coordinators_die_at_work, coordinator_pauses, database_slow,
        steps_are_suspended, database_refuses, database_restored, judged_slowly, redis_away,
        redis_loses_writes, redis_loses_grants, redis_wiped, redis_fails_over,
        redis_fails_over_under_its_old_run, redis_refuses, redis_clock_jumps, redis_clock_is_set,
    )
}  # fmt: skip
OF_DASHBOARD = {
    fault.__name__
    for fault in (
        change_strategy, add_partitions, dashboard_dies, coordinators_die_at_work,
        coordinator_pauses, database_refuses, database_restored,
    )
}  # fmt: skip


def heal(world: "World") -> None:
    """Every fault ends; at least one member and one coordinator are there: a process whose name is
    a living misfit's does not count, it will be refused. A database that refuses now does so until
    everything is owned: no failover waits for a record. Only what was destroyed is recorded before
    a group that Redis does not know any more is put back.
    """
    world.healed = True
    world.network = Network()
    world.restore_failures = world.slow_steps = 0.0
    world.redis.returns()
    if world.struck["redis wiped"] or world.read().meta.settings is None:
        world.database.refuses = False
    for coordinator in world.coordinators:
        coordinator.crash_chance, coordinator.paused_until_ms = 0.0, 0
        coordinator.start()
    for agent in world.living():
        agent.heal()
    running, living = world.scale_downs.running, world.living()
    leaving = world.scale_downs.told | set(running.remaining if running else ())
    misfits = {a.member_id for a in living if a.misfit}
    if all(a.told_to_go or a.member_id in leaving | misfits for a in living):
        world.add_one()
