"""One world under random operations: what each answers, and all that can be seen, no times."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from assignment.errors import Fenced
from assignment.scripts import agent_side
from assignment.scripts.agent_side import CommitRequest, SnapshotRecord, StateChange
from assignment.scripts.group_read import Purpose
from assignment.types import Claim, Drain, HeldState, Offset, Partition, TargetRow
from assignment.wire import ConsumerHealth
from tests.contract.world import LONG_MS, World

MEMBERS = ("a", "b", "c")
PARTITIONS = tuple(Partition("flights", n) for n in range(3))
Operation = tuple[str, dict[str, Any]]


class Side:
    """An operation is the world's of that name, unless it takes or answers something else here."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.changelog_ids: list[tuple[Partition, str]] = []

    def do(self, operation: Operation) -> Any:
        name, values = operation
        try:
            own = getattr(self, f"do_{name}", None)
            return (own or getattr(self.world, name))(**values)
        except Fenced:
            return "fenced"

    def do_evict(self, member_id: str, before_ms: int) -> Any:
        beat = self.world.read().beats.get(member_id, 0)
        return self.world.evict(member_id, beat - before_ms)

    def do_set_drain(self, drain: Drain, members: list[str]) -> Any:
        return self.world.set_drain(drain, *members)

    def do_set_target(
        self,
        coordinator: int,
        mode: int,
        epoch: int,
        rows: dict[str, Any],
        learning: dict[str, Any],
    ) -> Any:
        """Epochs as they were read, each off by so much."""
        view = self.world.read(Purpose.REBALANCE)
        meta = view.meta
        made_for = max(0, meta.group_epoch + epoch)
        wanted = {
            m: TargetRow(
                target_epoch=made_for,
                active=frozenset(active),
                learning=frozenset(learning[m]),
            )
            for m, active in rows.items()
        }
        read = replace(
            meta,
            coordinator_epoch=meta.coordinator_epoch + coordinator,
            mode_epoch=max(0, meta.mode_epoch + mode),
            group_epoch=made_for,
        )
        return self.world.set_rows(replace(view, meta=read), wanted)

    def do_acquire(self, incarnation: int, partitions: list[Partition], **values: Any) -> Any:
        now = max(0, self.world.read().meta.incarnation + incarnation)
        answer = self.world.acquire(values.pop("member_id"), *partitions, incarnation=now, **values)
        if not isinstance(answer, tuple):
            return answer
        return [
            a if not isinstance(a, agent_side.HeldBy) else (a.partition, a.member_id)
            for a in answer
        ]

    def do_renew(self, member_id: str, claims: list[Claim]) -> Any:
        return self.world.store.run(agent_side.renew(member_id, LONG_MS, claims))

    def do_release(self, member_id: str, claim: Claim, state: HeldState | None) -> Any:
        return self.world.release(member_id, dict([claim]), state)

    def do_expire(self, member_id: str, claim: Claim) -> Any:
        """The lock runs out: its last renew is for one millisecond."""
        renewed = self.world.store.run(agent_side.renew(member_id, 1, [claim]))
        if renewed.held[0]:
            self.world.until(lambda: claim.partition not in self.world.read().locks)
        return renewed

    def do_set_state(self, member_id: str, changes: list[StateChange]) -> Any:
        return self.world.store.run(agent_side.set_state(member_id, changes))

    def do_next_batch(self, member_id: str) -> Any:
        planned = self.world.store.run(agent_side.next_batch(member_id))
        return sorted((replace(one, replication_id="") for one in planned), key=str)

    def do_progress(self, member_id: str, rows: int) -> Any:
        return self.world.store.write_progress(member_id, ConsumerHealth(rows=rows))

    def do_commit(self, request: CommitRequest) -> Any:
        answer = self.world.store.run(agent_side.commit(request))
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
        return self.world.store.run(agent_side.snapshot(partition, record, trim=trim))

    def do_restore(self, partition: Partition, at: Offset) -> Any:
        record = SnapshotRecord(url="f", offset=at, changelog_id="0-0", total=9, fence=1)
        return self.world.restore(1, {partition: record})

    def do_tick(self) -> None:
        self.world.read(Purpose.TICK)

    # --- everything that can be seen --------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        world = self.world
        group = world.read()
        meta = {f: getattr(group.meta, f) for f in group.meta.__slots__}
        for name in ("run_id", "tick_ms", "away", "target_at_ms", "due_since_ms"):
            meta.pop(name, None)
        return {
            "meta": meta,
            "possible": group.grants_are_possible,
            "members": {
                m: (r.able, r.leaving, r.drain, r.ready, r.host, r.able_at_ms > 0)
                for m, r in group.members.items()
            },
            "beats": set(group.beats),
            "reports": {
                m: (r.number, r.sequence, r.owned, r.consumer, r.replicas)
                for m, r in group.reports.items()
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
        return {k.decode()[len(prefix) :] for k in self.world.door.ask("KEYS", prefix + "*")}
