"""Random operations on two worlds at once, and all that can be seen of a world, times left out."""

import random
from collections.abc import Iterator
from typing import Any

from assignment import scripts
from assignment.errors import Fenced
from assignment.scripts import CommitRequest, Purpose, SnapshotRecord, StateChange
from assignment.types import START, Claim, HeldState, Offset, Partition, TargetRow
from assignment.wire import ConsumerHealth
from tests.contract.world import LONG_MS, World, offset
from tests.fakes import FakeDoor

MEMBERS = ("a", "b", "c")
PARTITIONS = tuple(Partition("flights", n) for n in range(3))
OPERATIONS_PER_SEQUENCE = 40
Operation = tuple[str, dict[str, Any]]


class Side:
    """One world under random operations: what each operation answers here, without times."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.changelog_ids: list[tuple[Partition, str]] = []

    def do(self, operation: Operation) -> Any:
        name, values = operation
        try:
            return getattr(self, f"do_{name}")(**values)
        except Fenced:
            return "fenced"

    def do_configure(self, **values: Any) -> Any:
        return self.world.configure(**values)

    def do_join(self, **values: Any) -> Any:
        return self.world.join(**values)

    def do_leave(self, **values: Any) -> Any:
        return self.world.leave(**values)

    def do_evict(self, member_id: str, before_ms: int) -> Any:
        beat = self.world.read().beats.get(member_id, 0)
        return self.world.evict(member_id, beat - before_ms)

    def do_report(self, **values: Any) -> Any:
        return self.world.report(**values)

    def do_set_incarnation(self, incarnation: int) -> Any:
        return self.world.set_incarnation(incarnation)

    def do_another_run(self) -> None:
        self.world.another_run()

    def do_touch(self) -> Any:
        return self.world.run("touch", scripts.touch_args("asked"))

    def do_resume(self, epoch: int, seq: int) -> Any:
        return self.world.run("resume", [str(epoch), str(seq)])

    def do_set_target(self, coordinator: int, mode: int, epoch: int, rows: dict[str, Any]) -> Any:
        """Epochs as they were read, each off by so much."""
        meta = self.world.read(Purpose.PLAN).meta
        made_for = max(0, meta.group_epoch + epoch)
        wanted = {
            m: TargetRow(target_epoch=made_for, active=frozenset(active))
            for m, active in rows.items()
        }
        args = scripts.set_target_args(
            meta.coordinator_epoch + coordinator, max(0, meta.mode_epoch + mode), made_for, wanted
        )
        return scripts.set_target_answer(self.world.run("set_target", args))

    def do_acquire(self, incarnation: int, partitions: list[Partition], **values: Any) -> Any:
        now = max(0, self.world.read().meta.incarnation + incarnation)
        answer = self.world.acquire(values.pop("member_id"), *partitions, incarnation=now, **values)
        if not isinstance(answer, tuple):
            return answer
        return [
            a if not isinstance(a, scripts.HeldBy) else (a.partition, a.member_id) for a in answer
        ]

    def do_renew(self, member_id: str, claims: list[Claim]) -> Any:
        return self.world.store.renew(member_id, LONG_MS, claims)

    def do_release(self, member_id: str, claims: list[Claim]) -> Any:
        return self.world.store.release(member_id, claims)

    def do_expire(self, member_id: str, claim: Claim) -> Any:
        """The lock runs out: its last renew is for one millisecond."""
        renewed = self.world.store.renew(member_id, 1, [claim])
        if renewed.held[0]:
            self.world.until(lambda: claim.partition not in self.world.read().locks)
        return renewed

    def do_set_state(self, member_id: str, changes: list[StateChange]) -> Any:
        return self.world.store.set_state(member_id, changes)

    def do_plan(self, member_id: str) -> Any:
        return sorted(self.world.store.plan(member_id), key=str)

    def do_progress(self, member_id: str, rows: int) -> Any:
        return self.world.store.write_progress(member_id, ConsumerHealth(rows=rows))

    def do_commit(self, request: CommitRequest) -> Any:
        answer = self.world.store.commit(request)
        entry = (request.partition, answer.changelog_id)
        if answer.changelog_id and entry not in self.changelog_ids:
            self.changelog_ids.append(entry)
        return answer.result, answer.committed, answer.last_fence, bool(answer.changelog_id)

    def do_snapshot(self, partition: Partition, at: Offset, fence: int, trim: bool) -> Any:
        page = self.world.store.read_changelog(partition, "0-0", 1_000)
        ids = [e.entry_id for e in page.entries if e.to_offset <= at]
        record = SnapshotRecord(
            url="file:///s",
            offset=at,
            changelog_id=ids[-1] if ids else "0-0",
            total=1,
            fence=fence,
        )
        return self.world.store.snapshot(partition, record, trim=trim)

    def do_restore(self, partition: Partition, at: Offset) -> Any:
        record = SnapshotRecord(url="f", offset=at, changelog_id="0-0", total=9, fence=1)
        args = scripts.restore_args({partition: record})
        return scripts.restore_answer(self.world.run("restore", args))

    def do_sweep(self) -> Any:
        return self.world.sweep()

    def do_tick(self) -> None:
        self.world.read(Purpose.TICK)

    # --- everything that can be seen --------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        world = self.world
        group = world.read()
        meta = {f: getattr(group.meta, f) for f in group.meta.__slots__}
        for name in ("run_id", "tick_ms", "quiet_until_ms", "target_at_ms"):
            meta.pop(name, None)
        return {
            "meta": meta,
            "possible": group.grants_are_possible,
            "members": {
                m: (r.able, r.leaving, r.host, r.able_at_ms > 0) for m, r in group.members.items()
            },
            "beats": set(group.beats),
            "reports": {
                m: (r.number, r.sequence, r.owned, r.consumer) for m, r in group.reports.items()
            },
            "asked": set(group.asked),
            "target": group.target,
            "grants": {p: (g.fence, g.member_id, g.ended) for p, g in group.grants.items()},
            "locks": {p: (x.member_id, x.fence) for p, x in group.locks.items()},
            "offsets": group.offsets,
            "applied": {p: a.total for p, a in group.applied.items()},
            "snapshots": {p: [self._record(p, r) for r in rs] for p, rs in group.snapshots.items()},
            "owned": {m: world.store.owned(m) for m in MEMBERS},
            "progress": {m: world.store.progress(m) for m in MEMBERS},
            "refused": sorted(self._pairs(world.keys.refused)),
            "since": sorted((p, v.split()[0]) for p, v in self._pairs(world.keys.since)),
            "events": [(e.seq, e.kind, e.partition, e.member_id, e.fence) for e in world.events()],
            "hints": world.store.wait_hints("0-0", 1).hints,
            "changelogs": {p: self._entries(world.keys.changelog(p)) for p in PARTITIONS},
            "dead": {p: self._entries(world.keys.dead(p)) for p in PARTITIONS},
            "keys": self._keys(),
        }

    def _record(self, partition: Partition, record: SnapshotRecord) -> Any:
        """The changelog's ids are times: which commit's it is stands for it."""
        entry = (partition, record.changelog_id)
        position = self.changelog_ids.index(entry) if entry in self.changelog_ids else "none"
        return record.offset, record.fence, record.total, position

    def _pairs(self, key: str) -> Iterator[tuple[str, str]]:
        raw = [v.decode() for v in self.world.door.ask("HGETALL", key)]
        return zip(raw[::2], raw[1::2], strict=True)

    def _entries(self, key: str) -> list[Any]:
        return [fields for _, fields in self.world.door.ask("XRANGE", key, "-", "+")]

    def _keys(self) -> set[str]:
        """Names of all keys: nothing is left behind that nobody looks at."""
        prefix = self.world.keys.meta.removesuffix("meta")
        door = self.world.door
        if not isinstance(door, FakeDoor):
            return {k.decode()[len(prefix) :] for k in door.ask("KEYS", prefix + "*")}
        server = door.server
        kinds = (server.hashes, server.streams, server.scores)
        found = {key for kind in kinds for key, value in kind.items() if value}
        return {k[len(prefix) :] for k in found | {k for k in server.locks if server.lock(k)}}


class Generator:
    """Chooses the next operation, mostly a sensible one, from what the model's side shows."""

    def __init__(self, rng: random.Random, model: World) -> None:
        self.rng = rng
        self.model = model
        self.fences = [5]
        self.sequence = 0

    def operations(self) -> Iterator[Operation]:
        yield "configure", {"replan": True}
        for member_id in MEMBERS[:2]:
            yield "join", {"member_id": member_id}
        yield "set_incarnation", {"incarnation": 1}
        yield self.set_target()
        names = [n for n in dir(self) if n.startswith("make_")]
        weights = [WEIGHTS.get(n.removeprefix("make_"), 1) for n in names]
        for _ in range(OPERATIONS_PER_SEQUENCE):
            operation = getattr(self, self.rng.choices(names, weights)[0])()
            if operation:
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
        return "configure", {"replan": self.rng.random() < 0.5, "strategy": strategy}

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
        }

    def make_set_incarnation(self) -> Operation:
        now = self.model.read().meta.incarnation
        return "set_incarnation", {"incarnation": max(1, now + self._often(1, 0, -1, 100_000))}

    def make_another_run(self) -> Operation:
        return "another_run", {}

    def make_touch(self) -> Operation:
        return "touch", {}

    def make_resume(self) -> Operation:
        return "resume", {"epoch": self.rng.randint(0, 20), "seq": self.rng.randint(0, 20)}

    def set_target(self) -> Operation:
        rows: dict[str, list[Partition]] = {m: [] for m in MEMBERS}
        for partition in PARTITIONS:
            rows[self._member()].append(partition)
        return "set_target", {"coordinator": 0, "mode": 0, "epoch": 0, "rows": rows}

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
        return "release", {"member_id": self._often(member_id, "a", "b"), "claims": [claim]}

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

    def make_plan(self) -> Operation:
        return "plan", {"member_id": self._member()}

    def make_progress(self) -> Operation:
        return "progress", {"member_id": self._member(), "rows": self.rng.randint(0, 9)}

    def make_commit(self) -> Operation:
        member_id, claim = self._claim()
        at = self.model.read().offsets.get(claim.partition, START)
        low = self._often(at, START, Offset(at.ms + 1, 0), Offset(max(0, at.ms - 1), 0))
        dead = (scripts.DeadLetter("bad", "1-0", 0, b"\xff"),) if self.rng.random() < 0.2 else ()
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

    def make_sweep(self) -> Operation:
        return "sweep", {}

    def make_tick(self) -> Operation:
        return "tick", {}


# What ends many things at once is rare, else there is nothing to end.
WEIGHTS = {
    "acquire": 10,
    "another_run": 0.3,
    "commit": 12,
    "configure": 0.3,
    "evict": 0.7,
    "expire": 3,
    "join": 2,
    "leave": 0.4,
    "plan": 4,
    "release": 4,
    "renew": 3,
    "report": 6,
    "restore": 0.3,
    "resume": 0.3,
    "set_incarnation": 0.7,
    "set_state": 8,
    "set_target": 5,
    "snapshot": 5,
    "touch": 3,
}
