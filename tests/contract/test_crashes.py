"""An event that ends its consumer: found by crashes, halts its partition alone, is skipped."""

from collections.abc import Sequence

import pytest

from agent.spark import isolation
from agent.spark.isolation import Alone
from agent.spark.ranges import range_of
from assignment.scripts import crashes
from assignment.scripts.agent_side import BatchStart
from assignment.scripts.crashes import Skip, skip
from assignment.troubles import HaltReason
from assignment.types import START, Offset, Partition, Range
from tests.contract.world import P0, P1, P2, World, offset

POISON = offset(37)
BATCHES_MAX = 60


class SimpleConsumer:
    """Plans as the source does, processes as a pipeline that one entry of P1 ends."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.entries = {p: [offset(n) for n in range(1, 101)] for p in (P0, P1, P2)}
        self.turns = isolation.Turns()
        self.crashes: list[list[Partition]] = []
        self.alone: list[int] = []
        self.skipped: list[Offset] = []

    def ids(self, partition: Partition, after: Offset, most: int) -> Sequence[Offset]:
        return [one for one in self.entries[partition] if one > after][:most]

    def plan(self, free: Sequence[BatchStart]) -> Alone | list[Range]:
        if (skip := isolation.skipped(free, self.ids)) is not None:
            return skip
        ranges = [
            range_of(s, ids[-1])
            for s in isolation.others(free)
            if (ids := self.ids(s.partition, s.committed, 1_000))
        ]
        return self.turns.alone(free, self.ids, others_have_some=bool(ranges)) or ranges

    def run(self) -> None:
        """Until nothing is planned."""
        for _ in range(BATCHES_MAX):
            planned = self.plan(self.world.next_batch())
            if not planned:
                return
            self.process(planned)
        raise AssertionError(f"still at it after {BATCHES_MAX} batches")

    def process(self, planned: Alone | list[Range]) -> None:
        alone = planned.entries if isinstance(planned, Alone) else 0
        ranges = [planned.one] if isinstance(planned, Alone) else planned
        if isinstance(planned, Alone) and planned.skip:
            self.skipped.append(planned.one.to_offset)
        elif any(r.partition == P1 and r.from_offset < POISON <= r.to_offset for r in ranges):
            self.world.run(crashes.crash("it ended", alone, ranges))
            self.crashes.append([r.partition for r in ranges])
            self.alone.append(alone)
            return
        for one in ranges:
            answer = self.world.commit(one.partition, one.fence, one.from_offset, one.to_offset)
            assert answer.applied


@pytest.fixture
def consumer(world: World) -> SimpleConsumer:
    world.runs(a={P0, P1, P2})
    return SimpleConsumer(world)


def starts(world: World) -> dict[Partition, BatchStart]:
    return {start.partition: start for start in world.next_batch()}


def suspects(world: World) -> set[Partition]:
    return {partition for partition, start in starts(world).items() if start.suspect}


def ask(world: World, entry: Offset, *, wanted: bool = True) -> None:
    call = skip(P1, Skip(entry=entry, actor="operator", reason="it is broken"))
    assert world.run(call) is wanted


def test_one_event_alone_halts_its_partition_and_no_other(
    world: World, consumer: SimpleConsumer
) -> None:
    consumer.run()
    assert world.store.committed([P0, P1, P2]) == {P0: offset(100), P1: offset(36), P2: offset(100)}
    (halted,) = isolation.halted_of(world.next_batch())
    assert (halted.partition, halted.reason, halted.entry) == (P1, HaltReason.CRASH, str(POISON))
    assert halted.why == "it ended"
    assert consumer.crashes[:3] == [[P0, P1, P2]] * 3
    assert all(crash == [P1] for crash in consumer.crashes[3:])
    assert consumer.alone == [0, 0, 0, 100, 50, 25, 12, 6, 3, 1]


def test_what_is_halted_goes_on_behind_the_entry_that_is_skipped(
    world: World, consumer: SimpleConsumer
) -> None:
    consumer.run()
    ask(world, offset(36), wanted=False)
    ask(world, POISON)
    consumer.run()
    assert consumer.skipped == [POISON]
    assert world.store.committed([P1]) == {P1: offset(100)}
    assert (starts(world)[P1].suspect, starts(world)[P1].skip) == (None, None)


def test_only_the_very_next_entry_is_skipped(world: World, consumer: SimpleConsumer) -> None:
    consumer.run()
    ask(world, offset(38))
    assert isolation.skipped(world.next_batch(), consumer.ids) is None


def test_two_crashes_are_forgotten_by_a_commit(world: World, consumer: SimpleConsumer) -> None:
    ranges = consumer.plan(world.next_batch())
    consumer.process(ranges)
    consumer.process(ranges)
    world.commit(P0, starts(world)[P0].fence, START, offset(50))  # it had more in hand
    assert suspects(world) == {P1, P2}


def test_others_have_their_batches_between_two_of_a_suspect(
    world: World, consumer: SimpleConsumer
) -> None:
    for _ in range(3):
        consumer.process(consumer.plan(world.next_batch()))
    kinds = []
    for n in range(8):
        consumer.entries[P0] += [offset(200 + n)]  # what was suspect and is cleared has more
        planned = consumer.plan(world.next_batch())
        kinds.append(isinstance(planned, Alone))
        consumer.process(planned)
    assert kinds == [True, False] * 4


def test_a_crash_counts_only_for_what_is_not_committed_under_the_last_fence(
    world: World, consumer: SimpleConsumer
) -> None:
    fences = {p: start.fence for p, start in starts(world).items()}
    world.commit(P0, fences[P0], START, offset(5))
    fences[P2] -= 1
    parts = [Range(p, START, offset(5), fence) for p, fence in fences.items()]
    assert world.run(crashes.crash("x", 0, parts)) == 1
    assert suspects(world) == {P1}
