"""Trimming as the dashboard does it, and a second group that reads the same stream.

Its draws are its own, so that a seed plays everything else as it would without it.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from assignment.coordinator import trimming
from assignment.coordinator.trimming import Kept
from assignment.types import Offset
from assignment.wire import GroupKeys, StreamKeys
from tests.fakes.values import t
from tests.simulation.ledger import demand

if TYPE_CHECKING:
    from tests.simulation.world import World

SECOND = "second"
JOINS, READS, TRIMS, STANDS_STILL = 0.3, 0.5, 0.9, 0.3  # chances at each tick
EVENTS_MAX = 10  # of a partition that it reads at once
KEPT = (Kept(), Kept(), Kept(ms=2_000, partition_bytes=2**20), Kept(ms=60_000, partition_bytes=500))


class Trimming:
    """`_decided`: what a process that stands still is about to trim."""

    def __init__(self, world: "World", seed: int) -> None:
        self._world, self._draw = world, random.Random(f"trimming of {seed}")
        self._draw_kept = random.Random(f"kept of {seed}")
        self._keys = StreamKeys(world.settings.stream)
        self._decided: Callable[[], None] | None = None

    def tick(self) -> None:
        for act, chance in (self._join, JOINS), (self._read_on, READS), (self._trim, TRIMS):
            if self._draw.random() < chance and not self._world.server.away:
                act()

    def is_read_by(self, group: str) -> None:
        """As Redis knows it: a hash stands for the set."""
        self._world.server.ask("HSET", self._keys.groups, group, "")

    def _join(self) -> None:
        if not self._world.database.has_second:
            self._world.database.has_second = True
            self.is_read_by(SECOND)

    def _read_on(self) -> None:
        """Without members: only its offsets count."""
        server = self._world.server
        for number, offset in enumerate(self._committed(SECOND)):
            after = tuple(Offset.parse(offset))
            read = server.entries_after(self._keys.entries(number), after)[:EVENTS_MAX]
            if read and self._draw.random() < READS:
                partition, reached = f"{self._keys.stream}:{number}", str(Offset(*read[-1][0]))
                server.ask("HSET", GroupKeys(SECOND).offsets, partition, reached)

    def _committed(self, group: str) -> list[str]:
        stored = self._world.server.hash(GroupKeys(group).offsets)
        partitions = map(str, self._world.settings.all_partitions())
        return [t(stored.get(partition.encode(), b"0-0")) for partition in partitions]

    def _trim(self) -> None:
        decided, self._decided = self._decided or self._decide(), None
        if self._draw.random() < STANDS_STILL:
            self._decided = decided
        else:
            decided()

    def _decide(self) -> Callable[[], None]:
        world, server = self._world, self._world.server
        known = {world.name: world.settings.trimming}
        known |= {SECOND: True} if world.database.has_second else {}
        in_redis = {t(name) for name in server.hash(self._keys.groups)}
        lowest = trimming.lowest(map(self._committed, trimming.readers(known, in_redis)))
        return partial(self._drop, lowest, server.replication_id, sorted(known.keys() | in_redis))

    def _drop(self, lowest: Mapping[int, Offset], history: str, groups: list[str]) -> None:
        world, server = self._world, self._world.server
        for number, offset in lowest.items():
            of = self._keys
            keys = of.entries(number), of.index(number), of.hold(number)
            before = [entry_id for entry_id, _ in server.entries(keys[0])]
            kept = self._draw_kept.choice(KEPT)
            since_ms, most = max(0, server.now_ms - kept.ms), kept.partition_bytes
            asked = str(offset), history, str(since_ms), str(most)
            dropped = server.run_script("trim", keys, asked)
            world.reached["entries trimmed"] += dropped
            for group in groups:
                committed = Offset.parse(self._committed(group)[number])
                unread = [one for one in before[:dropped] if one > committed]
                demand(not unread, f"{keys[0]}: {unread} were trimmed, which {group} has not read")
