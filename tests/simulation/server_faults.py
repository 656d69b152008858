"""What happens to Redis, to the dashboard's processes, and to its database.

As in faults.py each takes the world and the agents that it strikes, at least one.
"""

from functools import partial
from typing import TYPE_CHECKING

from tests.fakes.server import LOADING, MASTERDOWN
from tests.simulation.faults import AWAY_MS, Fault, Victims, kill, leave, pause_ms

if TYPE_CHECKING:
    from tests.simulation.world import World

JUMPS_MS = (-3_000, -700, 700, 3_000)
FAR_MS = (60_000, 3_600_000)
LOST_WRITES_MS = (50, 1_000)  # a Redis with appendonly everysec loses at most a second
OLDER_MS = (1_000, 6_000)  # a copy, put back
LAGGING_MS = (0, 2_000)
SUSPENDED_MS = (1_000, 12_000)


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


def redis_away(world: "World", victims: Victims) -> None:
    if not world.server.down:
        world.server.down = True
        world.later(world.random.randint(*AWAY_MS) // 2, world.redis_returns)


def redis_loses_writes(world: "World", victims: Victims) -> None:
    """Its last ones, as a machine does that loses power; or it is put back from a copy."""
    lost_ms = world.random.choice((LOST_WRITES_MS, LOST_WRITES_MS, OLDER_MS))
    world.lose_writes_after(world.random.randint(*lost_ms))


def redis_fails_over(world: "World", victims: Victims) -> None:
    """To a replica that is behind."""
    world.lose_writes_after(world.random.randint(*LAGGING_MS), world.fail_over)


def redis_fails_over_under_its_old_run(world: "World", victims: Victims) -> None:
    """To one that was the primary before: only replication tells."""
    happens = partial(world.fail_over, same_run=True)
    world.lose_writes_after(world.random.randint(*LAGGING_MS), happens)


def redis_refuses(world: "World", victims: Victims) -> None:
    """It loads its data, or waits for a primary."""
    text, for_ms = world.random.choice((LOADING, MASTERDOWN)), world.random.randint(*AWAY_MS)
    world.server.refuse(text, for_ms)


def redis_loses_grants(world: "World", victims: Victims) -> None:
    """The writes that it loses are those of a handover."""
    leave(world, victims)
    world.later(world.random.randint(0, 150), lambda: world.lose_writes_after(LOST_WRITES_MS[1]))


def redis_wiped(world: "World", victims: Victims) -> None:
    world.wipe()


def redis_clock_jumps(world: "World", victims: Victims) -> None:
    world.redis_clock_jumps(world.random.choice(JUMPS_MS))


def redis_clock_is_set(world: "World", victims: Victims) -> None:
    """By up to an hour."""
    world.redis_clock_jumps(world.random.choice((-1, 1)) * world.random.randint(*FAR_MS))


SERVER_FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        dashboard_dies, coordinators_die_at_work, coordinator_pauses, database_slow,
        steps_are_suspended, database_refuses, database_restored, judged_slowly, redis_away,
        redis_loses_writes, redis_loses_grants, redis_wiped, redis_fails_over,
        redis_fails_over_under_its_old_run, redis_refuses, redis_clock_jumps, redis_clock_is_set,
    )
}  # fmt: skip
