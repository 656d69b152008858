"""Random operations on two worlds at once; the next is chosen by what the model's side shows."""

import random
from collections.abc import Iterator
from typing import Any

from assignment.scripts import agent_side
from assignment.scripts.agent_side import CommitRequest, StateChange
from assignment.types import START, Claim, Drain, HeldState, Offset, Partition
from tests.contract.side import MEMBERS, PARTITIONS, Operation
from tests.contract.world import World, offset

OPERATIONS_PER_SEQUENCE = 40


class Generator:
    """Chooses the next operation, mostly a sensible one, from what the model's side shows."""

    def __init__(self, rng: random.Random, model: World) -> None:
        self.rng = rng
        self.model = model
        self.fences = [5]
        self.sequence = 0

    def operations(self) -> Iterator[Operation]:
        yield "configure", {"rebalance_due": True}
        for member_id in MEMBERS[:2]:
            yield "join", {"member_id": member_id}
        yield "set_incarnation", {"incarnation": 1}
        yield self.set_target()
        for name in self.rng.choices(list(WEIGHTS), [*WEIGHTS.values()], k=OPERATIONS_PER_SEQUENCE):
            make = getattr(self, f"make_{name}", None)
            if operation := make() if make else (name, {}):
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
        strategy = self.rng.choice(("sticky", "averagely"))
        return "configure", {"rebalance_due": self.rng.random() < 0.5, "strategy": strategy}

    def make_join(self) -> Operation:
        secret = self._often("secret", "other")
        return "join", {"member_id": self._member(), "secret": secret, "host": "h"}

    def make_leave(self) -> Operation:
        return "leave", {"member_id": self._member(), "secret": self._often("secret", "other")}

    def make_evict(self) -> Operation:
        return "evict", {"member_id": self._member(), "before_ms": self.rng.choice((0, 1))}

    def make_report(self) -> Operation:
        self.sequence += 1
        member_id, claim = self._claim()
        held = f"{claim.fence} {self.rng.choice(list(HeldState)).value}"
        meta = self.model.read().meta
        learners = [str(p) for p in self.rng.sample(PARTITIONS, self.rng.randint(0, 3))]
        ready = [p for p in learners if self.rng.random() < 0.7]
        return "report", {
            "member_id": member_id,
            "secret": self._often("secret", "other"),
            "sequence": self._often(self.sequence, max(0, self.sequence - 3)),
            "report": self.rng.randint(1, 2),
            "complete": self.rng.random() < 0.4,
            "owned": {str(claim.partition): self._often(held, None)},
            "consumer": {"n": self.sequence},
            "able": self.rng.random() < 0.7,
            "leaving": self.rng.random() < 0.1,
            "incarnation": self._often(meta.incarnation, 0),
            "target_epoch": self._often(meta.target_epoch, 0),
            "replicas": {p: {"role": "learner", "lag": 3, "ready": p in ready} for p in learners},
            "ready": ready,
        }

    def make_set_drain(self) -> Operation:
        members = self.rng.sample(MEMBERS, self.rng.randint(0, 3))
        return "set_drain", {"drain": self.rng.choice(list(Drain)), "members": members}

    def make_set_incarnation(self) -> Operation:
        now = self.model.read().meta.incarnation
        return "set_incarnation", {"incarnation": max(1, now + self._often(1, 0, -1, 100_000))}

    def make_resume(self) -> Operation:
        epoch, event_seq = self.rng.randint(0, 20), self.rng.randint(0, 20)
        return "resume", {"epoch": epoch, "event_seq": event_seq, "target": {}}

    def set_target(self) -> Operation:
        rows: dict[str, list[Partition]] = {m: [] for m in MEMBERS}
        for partition in PARTITIONS:
            rows[self._member()].append(partition)
        learners = {p: self._member() for p in PARTITIONS if self.rng.random() < 0.8}
        learning = {
            m: [p for p, who in learners.items() if who == m and p not in rows[m]] for m in MEMBERS
        }
        epochs = {"coordinator": 0, "mode": 0, "epoch": 0}
        return "set_target", {**epochs, "rows": rows, "learning": learning}

    def make_set_target(self) -> Operation:
        name, values = self.set_target()
        values["coordinator"] = self._often(0, -1, 1)
        values["mode"] = self._often(0, -1, 1)
        values["epoch"] = self._often(0, -1, 1)
        return name, values

    def make_acquire(self) -> Operation:
        return "acquire", {
            "member_id": self._member(),
            "partitions": self.rng.sample(PARTITIONS, self.rng.randint(1, 3)),
            "incarnation": self._often(0, -1, 1),
            "mode_epoch": self._often(1, 2),
        }

    def make_renew(self) -> Operation:
        member_id, claim = self._claim()
        return "renew", {"member_id": member_id, "claims": [claim, self._claim(member_id)[1]]}

    def make_release(self) -> Operation:
        member_id, claim = self._claim()
        return "release", {
            "member_id": self._often(member_id, "a", "b"),
            "claim": claim,
            "state": self._often(None, *HeldState),
        }

    def make_expire(self) -> Operation | None:
        live = self.model.read()
        held = [(p, x) for p, x in live.locks.items() if x.member_id in live.members]
        if not held:
            return None
        partition, lock = self.rng.choice(held)
        return "expire", {"member_id": lock.member_id, "claim": Claim(partition, lock.fence)}

    def make_set_state(self) -> Operation:
        member_id, claim = self._claim()
        states = list(HeldState)
        at = self.model.store.owned(member_id).get(claim.partition)
        expected = at.state if at and self.rng.random() < 0.8 else self.rng.choice(states)
        new = HeldState.RUNNING if self.rng.random() < 0.6 else self.rng.choice(states)
        changes = [StateChange(claim.partition, claim.fence, expected, new)]
        return "set_state", {"member_id": member_id, "changes": changes}

    def make_next_batch(self) -> Operation:
        return "next_batch", {"member_id": self._member()}

    def make_progress(self) -> Operation:
        return "progress", {"member_id": self._member(), "rows": self.rng.randint(0, 9)}

    def make_commit(self) -> Operation:
        member_id, claim = self._claim()
        at = self.model.read().offsets.get(claim.partition, START)
        low = self._often(at, START, Offset(at.ms + 1, 0), Offset(max(0, at.ms - 1), 0))
        dead = (agent_side.DeadLetter("bad", "1-0", 0, b"\xff"),) if self.rng.random() < 0.2 else ()
        asks = self.rng.random() < 0.1
        request = CommitRequest(
            partition=claim.partition,
            member_id=member_id,
            fence=claim.fence,
            from_offset=low,
            to_offset=low if asks else Offset(low.ms + 1, self._often(0, 3)),
            events=0 if asks else self.rng.randint(0, 9),
            base_total=self._often(0, 2**40),
            changelog=self.rng.random() < 0.9,
            changes=self.rng.randbytes(4),
            dead=dead,
        )
        return "commit", {"request": request}

    def make_snapshot(self) -> Operation:
        _, claim = self._claim()
        at = self.model.read().offsets.get(claim.partition, START)
        return "snapshot", {
            "partition": claim.partition,
            "at": max(offset(1), Offset(at.ms + self._often(0, 1, -1), at.seq)),
            "fence": claim.fence,
            "trim": self.rng.random() < 0.8,
        }

    def make_restore(self) -> Operation:
        return "restore", {"partition": self.rng.choice(PARTITIONS), "at": offset(3)}


# Of every operation; one without a `make_` takes nothing. What ends many things at once is rare,
# else there is nothing to end.
WEIGHTS = {
    "acquire": 10,
    "another_run": 0.3,
    "commit": 12,
    "configure": 0.3,
    "evict": 0.7,
    "expire": 3,
    "join": 2,
    "leave": 0.4,
    "next_batch": 4,
    "progress": 1,
    "release": 4,
    "renew": 3,
    "report": 6,
    "request_rebalance": 3,
    "restore": 0.3,
    "resume": 0.3,
    "set_drain": 1,
    "set_incarnation": 0.7,
    "set_state": 8,
    "set_target": 5,
    "snapshot": 5,
    "sweep": 1,
    "tick": 1,
}
