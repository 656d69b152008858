"""Connections of one agent to Redis, and what one of them takes there.

Real Redis and agent, which holds partitions, beats and listens for hints; the most that were open
at once within two beats.
"""

import time
from collections.abc import Sequence
from typing import Any

import psutil
import redis

from assignment.types import GroupSettings
from tests.agent.conftest import World
from tests.bench.one_agent import row, world_of

PARTITIONS = 4
LOOKS, LOOK_S = 20, 0.3
KIBIBYTE = 1024
Clients = Sequence[dict[str, Any]]


def rows() -> list[dict[str, Any]]:
    with world_of("connections") as world:
        client = redis.Redis.from_url(world.redis_url)
        try:
            found = most_open(world, client)
        finally:
            client.close()
    taken = sum(int(one["tot-mem"]) for one in found) / len(found) / KIBIBYTE
    return [
        row(
            "agent_redis_connections", len(found), "connections",
            f"one agent, {PARTITIONS} partitions; its consumer is not counted",
        ),
        row("redis_connection_kib", round(taken, 1), "KiB", "tot-mem, mean of the agent's"),
    ]  # fmt: skip


def most_open(world: World, client: Any) -> Clients:
    world.dashboard.configure(GroupSettings(stream="s-connections", partitions=PARTITIONS))
    process = psutil.Process(world.agent().process.pid)
    member = world.member()
    world.dashboard.assign({member: range(PARTITIONS)})
    world.until_running(member, set(range(PARTITIONS)))
    found: Clients = ()
    for _ in range(LOOKS):
        found = max(found, clients_of(process, client), key=len)
        time.sleep(LOOK_S)
    return found


def clients_of(process: psutil.Process, client: Any) -> Clients:
    """Clients of Redis that are connections of that process."""
    local = {one.laddr.port for one in process.net_connections("tcp") if one.raddr}
    return [one for one in client.client_list() if int(one["addr"].rpartition(":")[2]) in local]
