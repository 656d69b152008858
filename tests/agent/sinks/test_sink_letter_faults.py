"""Consumers of a SQL sink die, hang and are replaced around every step of a batch: of each event
the effect, or the dead letter, is there once.

The real committer, start and database; the scripts on the fake Redis; no Spark.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.spark.sql_sink import Delivery, LettersOf, SinkDoor, SinkResult, sqlite_sink
from agent.store.group import GroupStore
from assignment.scripts.agent_side import CommitAnswer, CommitRequest
from assignment.scripts.values import Call
from assignment.types import Offset, Partition
from tests.agent.sinks.sink_world import GROUP, Consumer, Database, committed, write_rows
from tests.agent.sinks.test_sink_letters import Died, texts
from tests.contract.world import P0, T, World, offset
from tests.fakes import FakeDoor, FakeRedis

SEEDS, BATCHES, EVENTS_MAX, TURNS_MAX = 12, 40, 5, 50
AFTER_THE_SINK, BEFORE_REDIS = "after the sink", "before Redis"
Fault = Callable[[str], None]


class FaultyDoor(SinkDoor):
    fault: Fault

    def letters(self, partition: Partition, after: Offset, to: Offset) -> list[LettersOf]:
        self.fault("while Redis is behind")
        return super().letters(partition, after, to)

    def apply(self, delivery: Delivery) -> SinkResult:
        self.fault("before the sink")
        result = super().apply(delivery)
        self.fault(AFTER_THE_SINK)
        return result


class FaultyStore(GroupStore):
    fault: Fault

    def run(self, call: Call[T]) -> T:
        """Of commits: those that bring Redis to the sink."""
        if call.script != "commit":
            return super().run(call)
        self.fault("before Redis is brought")
        result = super().run(call)
        self.fault("after Redis was brought")
        return result

    def commit_many(self, requests: Sequence[CommitRequest]) -> Sequence[CommitAnswer]:
        self.fault(BEFORE_REDIS)
        result = super().commit_many(requests)
        self.fault("after Redis")
        return result


class Consumers:
    """One owner after the other; who hangs goes on when its successor has had a batch."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng, self.folder = random.Random(seed), folder
        self.world = World(FakeDoor(FakeRedis()), GROUP)
        self.fence = self.world.runs(a={P0})[0]
        self.database = Database(sqlite_sink(str(folder / f"{seed}.sqlite3"), write_rows))
        self.last, self.hung = 0, 0
        self.died: Counter[str] = Counter()
        self.is_calm = False
        self.consumer = self.fresh()

    def fresh(self) -> Consumer:
        consumer = Consumer(self.world, self.database, "a", self.folder)
        store = FaultyStore(self.world.door, GROUP)
        doors = [FaultyDoor(self.database.sink, GROUP) for _ in range(2)]
        for one in (store, *doors):
            one.fault = self.fault
        consumer.start.door, consumer.door = doors
        consumer.start.groups = store
        object.__setattr__(consumer.committer, "groups", store)
        object.__setattr__(consumer.committer.effects, "door", doors[1])
        return consumer

    def fault(self, where: str) -> None:
        chance = self.rng.random()
        if self.is_calm or chance > 0.2:
            return
        if chance < 0.1:
            self.died[where] += 1
            raise Died
        if not self.hung:
            self.hung += 1
            self.world.release("a", {P0: self.fence})
            self.fence = self.world.running("a", P0)
            self.consumer = self.fresh()
            self.batch()
            self.hung -= 1

    def batch(self) -> None:
        """Of some of what was not applied; one event in three cannot be read."""
        consumer = self.consumer
        try:
            begun = consumer.next_batch()
            if begun and begun[0].committed < offset(self.last):
                to = self.rng.randint(begun[0].committed.ms + 1, self.last)
                consumer.commit(begun[0], to, bad=range(0, self.last + 1, 3))
        except Died:
            if consumer is self.consumer:
                self.consumer = self.fresh()

    def run(self) -> None:
        for _ in range(BATCHES):
            self.last += self.rng.randint(0, EVENTS_MAX)
            self.batch()
        self.is_calm = True
        for _ in range(TURNS_MAX):
            if committed(self.world) == offset(self.last):
                return
            self.batch()
        raise AssertionError("it does not come to an end")


def test_every_event_has_its_effect_or_its_letter_once(tmp_path: Path) -> None:
    died: Counter[str] = Counter()
    for seed in range(SEEDS):
        consumers = Consumers(tmp_path, seed)
        consumers.run()
        events = range(1, consumers.last + 1)
        letters = Counter(int(text[:3]) for text in texts(consumers.world))
        assert letters == Counter(n for n in events if n % 3 == 0), f"seed {seed}"
        effects = [int(name) for name in consumers.database.events()]
        assert effects == [n for n in events if n % 3], f"seed {seed}"
        assert consumers.world.read().applied[P0].total == consumers.last, f"seed {seed}"
        died += consumers.died
    assert min(died[AFTER_THE_SINK], died[BEFORE_REDIS]) >= SEEDS / 2, died
