"""Random operations on two worlds at once; the next is chosen by what the model's side shows."""

import random
from collections.abc import Iterator
from typing import Any

from assignment.scripts.dead_letters import DeadLetter
from assignment.types import START, Claim, Coordination, Drain, HeldState, Offset, Partition
from tests.contract.side import MEMBERS, PARTITIONS, Operation
from tests.contract.world import World, commit_of, offset

OPERATIONS_PER_SEQUENCE = 40


def op(name: str, *arguments: Any, **values: Any) -> Operation:
    return name, arguments, values


class Generator:
    """Chooses the next operation, mostly a sensible one, from what the model's side shows."""

    def __init__(self, rng: random.Random, model: World) -> None:
        self.rng = rng
        self.model = model
        self.fences = [5]
        self.sequence = 0

    def operations(self) -> Iterator[Operation]:
        yield op("configure", rebalance_due=True)
        for member_id in MEMBERS[:2]:
            yield op("join", member_id)
        yield op("set_incarnation", 1)
        yield self.set_target()
        for name in self.rng.choices(list(WEIGHTS), [*WEIGHTS.values()], k=OPERATIONS_PER_SEQUENCE):
            make = getattr(self, f"make_{name}", None)
            if operation := make() if make else op(name):
                yield operation

    def _often(self, usual: Any, *rare: Any) -> Any:
        return usual if self.rng.random() < 0.85 else self.rng.choice(rare)

    def _member(self) -> str:
        return self.rng.choice(MEMBERS)

    def _claim(self, member_id: str | None = None) -> tuple[str, Claim]:
        """Mostly one that is or was held, now and then under the fence next to it."""
        grants = self.model.read().grants
        mine = [
            (g.member_id, Claim(p, g.fence))
            for p, g in grants.items()
            if member_id in (None, g.member_id)
        ]
        self.fences += [c.fence for _, c in mine if c.fence not in self.fences]
        if mine and self.rng.random() < 0.85:
            member, claim = self.rng.choice(mine)
            return member, claim._replace(fence=claim.fence + self._often(0, -1, 1))
        claim = Claim(self.rng.choice(PARTITIONS), self.rng.choice(self.fences))
        return member_id or self._member(), claim

    def make_configure(self) -> Operation:
        strategy, due = self.rng.choice(("sticky", "averagely")), self.rng.random() < 0.5
        return op("configure", strategy=strategy, rebalance_due=due)

    def make_join(self) -> Operation:
        return op("join", self._member(), self._often("secret", "other"), host="h")

    def make_leave(self) -> Operation:
        return op("leave", self._member(), self._often("secret", "other"))

    def make_evict(self) -> Operation:
        return op("evict", self._member(), self.rng.choice((0, 1)))

    def make_report(self) -> Operation:
        self.sequence += 1
        member_id, claim = self._claim()
        held = f"{claim.fence} {self.rng.choice(list(HeldState)).value}"
        meta = self.model.read().meta
        learners = [str(p) for p in self.rng.sample(PARTITIONS, self.rng.randint(0, 3))]
        ready = [p for p in learners if self.rng.random() < 0.7]
        return op(
            "report",
            member_id,
            self._often(self.sequence, max(0, self.sequence - 3)),
            secret=self._often("secret", "other"),
            report=self.rng.randint(1, 2),
            complete=self.rng.random() < 0.4,
            owned={str(claim.partition): self._often(held, None)},
            consumer={"batch": self.sequence},
            able=self.rng.random() < 0.7,
            leaving=self.rng.random() < 0.1,
            incarnation=self._often(meta.incarnation, 0),
            target_epoch=self._often(meta.target_epoch, 0),
            replicas={p: {"role": "learner", "lag": 3, "ready": p in ready} for p in learners},
            ready=ready,
        )

    def make_set_drain(self) -> Operation:
        members = self.rng.sample(MEMBERS, self.rng.randint(0, 3))
        return op("set_drain", self.rng.choice(list(Drain)), *members)

    def make_set_incarnation(self) -> Operation:
        now = self.model.read().meta.incarnation
        return op("set_incarnation", max(1, now + self._often(1, 0, -1, 100_000)))

    def make_set_mode(self) -> Operation:
        off_by = self._often(0, -1, 1), self._often(0, -1, 1)
        return op("set_mode", self.rng.choice(list(Coordination)), *off_by)

    def make_resume(self) -> Operation:
        return op("resume", self.rng.randint(0, 20), self.rng.randint(0, 20), {})

    def set_target(self, **off_by: int) -> Operation:
        rows: dict[str, list[Partition]] = {m: [] for m in MEMBERS}
        for partition in PARTITIONS:
            rows[self._member()].append(partition)
        learners = {p: self._member() for p in PARTITIONS if self.rng.random() < 0.8}
        learning = {
            m: [p for p, who in learners.items() if who == m and p not in rows[m]] for m in MEMBERS
        }
        return op("set_target", rows, learning, **off_by)

    def make_set_target(self) -> Operation:
        epochs = "coordinator_epoch", "mode_epoch", "group_epoch"
        return self.set_target(**{name: self._often(0, -1, 1) for name in epochs})

    def make_acquire(self) -> Operation:
        wanted = self.rng.sample(PARTITIONS, self.rng.randint(1, 3))
        at = {"incarnation": self._often(0, -1, 1), "mode_epoch": self._often(0, -1, 1)}
        return op("acquire", self._member(), *wanted, **at)

    def make_renew(self) -> Operation:
        member_id, claim = self._claim()
        return op("renew", member_id, claim, self._claim(member_id)[1])

    def make_release(self) -> Operation:
        member_id, claim = self._claim()
        state = self._often(None, *HeldState)
        return op("release", self._often(member_id, "a", "b"), dict([claim]), state)

    def make_expire(self) -> Operation | None:
        live = self.model.read()
        held = [(p, x) for p, x in live.locks.items() if x.member_id in live.members]
        if not held:
            return None
        partition, lock = self.rng.choice(held)
        return op("expire", lock.member_id, Claim(partition, lock.fence))

    def make_move(self) -> Operation:
        member_id, claim = self._claim()
        states = list(HeldState)
        at = self.model.store.owned(member_id).get(claim.partition)
        expected = at.state if at and self.rng.random() < 0.8 else self.rng.choice(states)
        new = HeldState.RUNNING if self.rng.random() < 0.6 else self.rng.choice(states)
        return op("move", member_id, *claim, expected, new)

    def make_next_batch(self) -> Operation:
        return op("next_batch", self._member())

    def make_progress(self) -> Operation:
        return op("progress", self._member(), self.rng.randint(0, 9))

    def make_commit(self) -> Operation:
        member_id, claim = self._claim()
        at = self.model.read().offsets.get(claim.partition, START)
        low = self._often(at, START, Offset(at.ms + 1, 0), Offset(max(0, at.ms - 1), 0))
        dead = (DeadLetter("bad", "1-0", 0, b"\xff"),) if self.rng.random() < 0.2 else ()
        asks = self.rng.random() < 0.1
        high = low if asks else Offset(low.ms + 1, self._often(0, 3))
        request = commit_of(
            *claim,
            low,
            high,
            member_id,
            events=0 if asks else self.rng.randint(0, 9),
            base_total=self._often(0, 2**40),
            changelog=self.rng.random() < 0.9,
            changes=self.rng.randbytes(4),
            dead=dead,
        )
        return op("commit", request)

    def make_snapshot(self) -> Operation:
        _, claim = self._claim()
        at = self.model.read().offsets.get(claim.partition, START)
        end = max(offset(1), Offset(at.ms + self._often(0, 1, -1), at.seq))
        return op("snapshot", *claim, end, self.rng.random() < 0.8)

    def make_restore(self) -> Operation:
        return op("restore", self.rng.choice(PARTITIONS), offset(3))


# How often each operation comes; one without a `make_` takes nothing. What ends many things at once
# is rare, else there is nothing to end.
OFTEN = {
    10: "acquire commit",
    6: "move report set_target snapshot",
    3: "expire next_batch release renew request_rebalance",
    1: "evict join progress set_drain set_incarnation set_mode sweep tick",
    0.3: "another_run configure leave restore resume",
}
WEIGHTS = {name: weight for weight, names in OFTEN.items() for name in names.split()}
