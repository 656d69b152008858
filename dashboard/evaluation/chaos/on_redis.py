"""Faults of Redis and of the database. What a Redis held that forgot is kept as an era of its own,
but of one that is killed: what it had not written is nowhere.

Redis is away for a moment, or longer than a lease: then every lock ends, and all may move.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from dashboard.evaluation.chaos.strikes import Strike, fault
from dashboard.evaluation.chaos.world import World
from dashboard.evaluation.forwarder import Forwarder
from dashboard.evaluation.redis_servers import (
    BEHIND_MIN,
    appended,
    behind_clock,
    content_of,
    forgetting,
    replica_appended,
    server,
)

OLDER_S = 2.0  # how old the data are that lost their last writes
SYNC_S = 30.0
MOMENT = 0.2
AWAY_LEASES = (MOMENT, 2.0)


def away(one: Strike) -> None:
    """Lets the time go by for which it is away."""
    lease_s = one.world.asked.timings.lease_ms / 1_000
    leases = one.dice.choice(AWAY_LEASES)
    one.how = f"{one.how}away for {leases:g} leases"
    if leases > MOMENT:
        one.hurt += one.world.asked.names
    one.world.pass_time(leases * lease_s)
    one.is_over = True


@fault("redis-kill")
def redis_kill(one: Strike) -> Iterator[None]:
    redis = one.world.redis.server
    redis.kill()
    one.worked = redis.pid is None
    try:
        away(one)
    finally:
        redis.start()
    yield


@fault("redis-stall")
def redis_stall(one: Strike) -> Iterator[None]:
    process = psutil.Process(one.world.redis.server.pid)
    process.suspend()
    one.worked = one.world.happens(lambda: process.status() == psutil.STATUS_STOPPED, 1.0)
    try:
        away(one)
    finally:
        process.resume()
    yield


@fault("redis-wipe")
def redis_wipe(one: Strike) -> Iterator[None]:
    yield from restarted(one, lambda: None)


@fault("redis-lost-writes")
def redis_lost_writes(one: Strike) -> Iterator[None]:
    redis = one.world.redis.server
    older = redis.folder / "older"
    replica_appended(redis.folder, older)
    one.world.pass_time(OLDER_S)
    yield from restarted(one, lambda: older.rename(appended(redis.folder)))


def restarted(one: Strike, put_back: Callable[[], object]) -> Iterator[None]:
    """Killed, its data taken away as evidence, started on what is put back."""
    world, redis = one.world, one.world.redis.server
    evidence = world.folder / f"evidence-{time.monotonic_ns()}"
    with forgetting(redis, evidence, put_back):
        one.worked = True
        away(one)
    yield
    remember(world, evidence)


def remember(world: World, folder: Path) -> None:
    read = content_of(folder, world.redis.server, lambda url: world.eye.at(url).content())
    world.eras.append(read)
    shutil.rmtree(folder, ignore_errors=True)


@fault("redis-failover")
def redis_failover(one: Strike) -> Iterator[None]:
    """A replica that lacks the last writes is promoted, and every name leads to it."""
    world, old = one.world, one.world.redis.server
    link = Forwarder(old.port or 0)
    new = server(world.folder / f"redis-{time.monotonic_ns()}", like=old)
    new.start()
    try:
        replica = world.eye.at(new.url)
        replica.follow(link.port, old.password)
        world.wait(replica.is_synced, SYNC_S, "the replica did not catch up")
        link.cut()
        world.pass_time(OLDER_S)
        old.kill()
        one.worked = True
        away(one)
    finally:
        link.close()
        world.eye.at(new.url).promote()
        world.lead_to(new)
    yield
    remember(world, old.folder)


@fault("clock-back")
def clock_back(one: Strike) -> Iterator[None]:
    """From here on its clock is behind. Where the library is not to be had, what was written is
    numbered ahead instead.
    """
    world, redis = one.world, one.world.redis.server
    program = behind_clock(world.folder / "clock", BEHIND_MIN)
    if program is None:
        one.how = "emulated, stream ids were set ahead; "
        world.eye.server.run_ahead(BEHIND_MIN * 60_000)
    redis.stop()
    redis.binary = program or redis.binary
    one.worked = True
    try:
        away(one)
    finally:
        redis.start()
    yield


@fault("database-away")
def database_away(one: Strike) -> Iterator[None]:
    assert one.world.postgres is not None, "the run was started with one"
    one.world.postgres.stop()
    one.worked = True
    try:
        yield
    finally:
        one.world.postgres.start()
