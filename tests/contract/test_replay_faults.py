"""Letters are made and replayed while owners die, hang, change and lose replies around every step:
none is lost, and each has its effect once, whether effects are state or in a sink of their own.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from assignment.scripts import crashes, dead_letters, replays
from assignment.scripts.agent_side import BatchStart, DeadLetter
from assignment.scripts.dead_letters import Bounds
from assignment.scripts.replays import Bound
from assignment.types import START, Offset, Range
from assignment.wire import pack_changes, unpack_changes
from tests.contract.world import P0, World, offset
from tests.fakes import FakeDoor, FakeRedis

STEPS, TURNS_MAX = 250, 400
SEEDS, SEEDS_ON_SERVERS = 20, 1
OVER = object()
LETTERS_ALL = Bounds(letters=1_000, through=2**20, raw=100)


@dataclass
class Sink:
    """A row and its effects, in one transaction each; as agent/spark/sql_sink.py."""

    fence: int = 0
    at: Offset = START
    effects: Counter[str] = field(default_factory=Counter)
    dead: tuple[Offset, int, list[DeadLetter]] = (START, 0, [])  # of the last batch with any

    def apply(self, one: Range, effects: list[str], dead: list[DeadLetter]) -> bool:
        if self.fence == one.fence and self.at == one.from_offset:
            self.at = one.to_offset
            self.effects.update(effects)
            if dead:
                self.dead = (one.to_offset, one.fence, dead)
            return True
        return self.fence == one.fence and self.at == one.to_offset


class Consumers:
    """One owner after the other, and those that hang with a batch in hand: each goes on with its
    steps whenever the dice say so.
    """

    def __init__(self, world: World, seed: int, *, has_sink: bool) -> None:
        self.world, self.rng = world, random.Random(seed)
        self.sink = Sink() if has_sink else None
        (self.fence,) = world.runs(a={P0})
        self.in_hand: dict[int, Iterator[None]] = {}  # by fence: nobody has two batches at once
        self.last = self.made = 0  # the last entry; how many events became letters
        self.seen: set[str] = set()  # events that were letters, or have to be

    # --- what happens

    def run(self) -> None:
        doings = (self.append, self.ask, self.begin, self.step, self.fault)
        for doing in self.rng.choices(doings, (3, 4, 5, 40, 1), k=STEPS):
            doing()
        for _ in range(TURNS_MAX):
            if not self.asked() and self.stands_at_the_end():
                return
            for _ in self.batch():
                pass
        raise AssertionError("letters still wait")

    def append(self) -> None:
        self.last += 1

    def letters(self) -> dict[Offset, str]:
        """Of those that are kept, the event, which is their text."""
        found = self.world.run(dead_letters.dead_letters([P0], LETTERS_ALL)).letters
        names = {one.name.at: one.raw.decode() for one in found}
        self.seen.update(names.values())
        return names

    def ask(self) -> None:
        known = sorted(self.letters())
        chosen = self.rng.sample(known, min(len(known), self.rng.randint(0, 3)))
        self.world.run(dead_letters.replay([(P0, one) for one in chosen], "ann"))

    def asked(self) -> bool:
        found = self.world.run(dead_letters.dead_letters([P0], LETTERS_ALL)).letters
        return any(one.asked_by for one in found)

    def stands_at_the_end(self) -> bool:
        ended = self.sink is None or self.sink.at == self.world.store.committed([P0])[P0]
        return ended and self.world.store.committed([P0])[P0] >= offset(self.last)

    def begin(self) -> None:
        """Anew under the same fence, when the consumer before died."""
        self.in_hand[self.fence] = self.batch()
        next(self.in_hand[self.fence])

    def step(self) -> None:
        if self.in_hand:
            fence, batch = self.rng.choice([*self.in_hand.items()])
            if next(batch, OVER) is OVER:
                del self.in_hand[fence]

    def fault(self) -> None:
        """A consumer loses its partition, and may go on with its batch later."""
        self.world.release("a", {P0: self.fence})
        self.fence = self.world.running("a", P0)

    # --- what a consumer does, from one point to the next where it may die

    def batch(self) -> Iterator[None]:
        (start,) = self.world.next_batch()
        if self.sink is not None:
            self.sink.fence = max(self.sink.fence, start.fence)
            yield
            if (brought := self.brought(start)) is None:
                return
            start = brought
        yield
        if start.replays is not None and start.replays.is_over:
            here = Range(P0, start.committed, start.committed, start.fence, start.replication_id)
            self.world.run(replays.narrow(here, len(start.replays.letters)))
        elif start.replays is not None and self.rng.random() < 0.7:
            yield from self.replay(start, [one.at for one in start.replays.letters])
        else:
            yield from self.read(start)

    def brought(self, start: BatchStart) -> BatchStart | None:
        """As agent/spark/sink_start.py: nothing is planned where Redis does not follow."""
        assert self.sink is not None
        if self.sink.at == start.committed:
            return start
        reached, fence, dead = self.sink.dead
        is_of_batch = reached == self.sink.at
        answer = self.world.commit(
            *(P0, start.fence, start.committed, self.sink.at),
            events=0,
            changelog=False,
            sink_fence=fence if is_of_batch else start.fence,
            dead=dead if is_of_batch else [],
        )
        if not answer.applied:
            return None
        return replace(start, committed=self.sink.at, replays=None)

    def replay(self, start: BatchStart, letters: list[Offset]) -> Iterator[None]:
        kept = self.letters()
        names = [kept[one] for one in letters if one in kept]
        unread = [n for n in names if self.rng.random() < 0.2]
        one = Range(P0, start.committed, start.committed.next, start.fence, start.replication_id)
        if self.rng.random() < 0.1:
            self.world.run(crashes.crash("it ended", 0, [one], len(letters)))
            return
        again = [DeadLetter("again", "1-0", 0, n.encode()) for n in unread]
        call = replays.bind(one, letters, offset(1), again)
        yield
        answers = [self.world.run(call) for _ in range(self.rng.choice((1, 2)))]
        assert len(set(answers)) == 1
        if answers[0] is Bound.DONE:
            effects = [n for n in names if n not in unread]
            yield from self.commit(one, effects, events=0, dead=[], letters=len(letters))

    def read(self, start: BatchStart) -> Iterator[None]:
        """Entries up to the last; each is a letter or an event that counts at once."""
        if offset(self.last) <= start.committed:
            return
        one = Range(P0, start.committed, offset(self.last), start.fence, start.replication_id)
        self.made += 1
        dead = [DeadLetter("bad", "1-0", 0, b"e%d" % self.made)] if self.rng.random() < 0.7 else []
        yield from self.commit(one, [], events=1, dead=dead)

    def commit(
        self,
        one: Range,
        effects: list[str],
        *,
        events: int,
        dead: list[DeadLetter],
        letters: int = 0,
    ) -> Iterator[None]:
        yield
        if self.sink is not None:
            if not self.sink.apply(one, effects, dead):
                return
            self.seen.update(letter.raw.decode() for letter in dead)
            yield
        if letters and self.rng.random() < 0.4:  # it dies, whatever it has stored
            self.world.run(crashes.crash("it ended", 0, [one], letters))
            return
        for _ in range(self.rng.choice((1, 2))):
            self.world.commit(
                *(P0, one.fence, one.from_offset, one.to_offset),
                changelog=self.sink is None,
                changes=pack_changes(dict.fromkeys(effects, 1)),
                events=events,
                dead=dead,
            )
            yield

    # --- what came of it

    def effects(self) -> Counter[str]:
        if self.sink is not None:
            return self.sink.effects
        page = self.world.store.read_changelog(P0, "0-0", 10_000)
        return Counter(name for entry in page.entries for name in unpack_changes(entry.changes))


@pytest.mark.parametrize("has_sink", [False, True])
def test_every_letter_has_its_effect_once(world: World, has_sink: bool) -> None:
    seeds = range(SEEDS if isinstance(world.door, FakeDoor) else SEEDS_ON_SERVERS)
    replayed = 0
    for seed in seeds:
        if isinstance(world.door, FakeDoor):
            place = World(FakeDoor(FakeRedis()), world.store.group)
        else:
            place = World(world.door, f"{world.store.group}-{seed}")
        consumers = Consumers(place, seed, has_sink=has_sink)
        consumers.run()
        effects, left = consumers.effects(), Counter(consumers.letters().values())
        assert max(effects.values(), default=1) == 1, f"seed {seed}: {effects}"
        assert max(left.values(), default=1) == 1, f"seed {seed}: {left}"
        assert not effects.keys() & left.keys(), f"seed {seed}"
        assert effects.keys() | left.keys() == consumers.seen, f"seed {seed}"
        replayed += effects.total()
    assert replayed >= len(seeds)
