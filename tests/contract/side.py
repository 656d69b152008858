"""One world under random operations: what each answers, and all that can be seen, no times."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import msgspec

from assignment.errors import Fenced
from assignment.scripts import agent_side
from assignment.scripts.agent_side import CommitRequest, SnapshotRecord
from assignment.scripts.group_read import Purpose
from assignment.types import Claim, Coordination, Epoch, Offset, Partition
from assignment.wire import ConsumerHealth
from tests.contract.world import World, row

MEMBERS = ("a", "b", "c")
PARTITIONS = tuple(Partition("flights", n) for n in range(3))
OF_ONE_SERVER = ("run_id", "away")
Operation = tuple[str, tuple[Any, ...], dict[str, Any]]


class Side:
    """An operation is the world's of that name, unless it takes or answers something else here."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.changelog_ids: list[tuple[Partition, str]] = []

    def do(self, operation: Operation) -> Any:
        name, arguments, values = operation
        try:
            own = getattr(self, f"do_{name}", None)
            return (own or getattr(self.world, name))(*arguments, **values)
        except Fenced:
            return "fenced"

    def do_evict(self, member_id: str, before_ms: int) -> Any:
        return self.world.evict(member_id, self.world.read().beats.get(member_id, 0) - before_ms)

    def do_set_target(
        self, rows: dict[str, Any], learning: dict[str, Any], **off_by: int
    ) -> str | None:
        """Epochs as they were read, each off by so much."""
        view = self.world.read(Purpose.REBALANCE)
        epochs = {name: max(0, getattr(view.meta, name) + by) for name, by in off_by.items()}
        read = replace(view, meta=replace(view.meta, **epochs))
        made_for = read.meta.group_epoch
        return self.world.set_rows(read, {m: row(made_for, rows[m], learning[m]) for m in rows})

    def do_acquire(
        self, member_id: str, *partitions: Partition, incarnation: int, mode_epoch: int
    ) -> Any:
        epochs = self._near_mode(incarnation, mode_epoch)
        answer = self.world.acquire(
            member_id, *partitions, incarnation=epochs.incarnation, mode_epoch=epochs.number
        )
        if not isinstance(answer, tuple):
            return answer
        return [replace(a, left_ms=0) if isinstance(a, agent_side.HeldBy) else a for a in answer]

    def do_set_mode(self, mode: Coordination, incarnation: int, mode_epoch: int) -> Any:
        return self.world.set_mode(mode, self._near_mode(incarnation, mode_epoch))

    def _near_mode(self, incarnation: int, mode_epoch: int) -> Epoch:
        """As it was read, each number off by so much."""
        now = self.world.read().meta.mode
        return Epoch(max(0, now.incarnation + incarnation), max(0, now.number + mode_epoch))

    def do_expire(self, member_id: str, claim: Claim) -> Any:
        """The lock runs out: its last renew is for one millisecond."""
        renewed = self.world.renew(member_id, claim, ttl_ms=1)
        if renewed.held[0]:
            self.world.until(lambda: claim.partition not in self.world.read().locks)
        return renewed

    def do_next_batch(self, member_id: str) -> Any:
        planned = self.world.next_batch(member_id)
        return sorted((replace(one, replication_id="") for one in planned), key=str)

    def do_progress(self, member_id: str, rows: int) -> Any:
        return self.world.store.write_progress(member_id, ConsumerHealth(rows=rows))

    def do_commit(self, request: CommitRequest) -> Any:
        answer = self.world.run(agent_side.commit(request))
        entry = (request.partition, answer.changelog_id)
        if answer.changelog_id and entry not in self.changelog_ids:
            self.changelog_ids.append(entry)
        return answer.result, answer.committed, answer.last_fence, bool(answer.changelog_id)

    def do_snapshot(self, partition: Partition, fence: int, at: Offset, trim: bool) -> Any:
        page = self.world.store.read_changelog(partition, "0-0", 1_000)
        ids = [e.entry_id for e in page.entries if e.to_offset <= at]
        return self.world.snapshot(partition, fence, at, ids[-1] if ids else "0-0", trim=trim)

    def do_restore(self, partition: Partition, at: Offset) -> Any:
        record = SnapshotRecord(url="f", offset=at, changelog_id="0-0", total=9, fence=1)
        return self.world.restore(1, {partition: record})

    def do_tick(self) -> None:
        self.world.read(Purpose.TICK)

    # --- everything that can be seen --------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        world, group = self.world, self.world.read()
        timed = "members", "reports", "grants", "locks", "applied"
        return {
            "meta": timeless(group.meta),
            "possible": group.grants_are_possible,
            **{name: {k: timeless(v) for k, v in getattr(group, name).items()} for name in timed},
            "beats": set(group.beats),
            "asked": set(group.asked),
            "target": group.target,
            "offsets": group.offsets,
            "snapshots": {p: [self._record(p, r) for r in rs] for p, rs in group.snapshots.items()},
            "owned": {m: world.store.owned(m) for m in MEMBERS},
            "progress": {m: world.store.progress(m) for m in MEMBERS},
            "refused": sorted(self._pairs(world.keys.refused)),
            "since": sorted((p, v.split()[0]) for p, v in self._pairs(world.keys.since)),
            "events": [(e.seq, e.kind, e.partition, e.member_id, e.fence) for e in world.events()],
            "changes": world.changes(),
            "calls": self._entries(world.keys.calls),
            "hints": {m: self._entries(world.keys.hints(m)) for m in MEMBERS},
            "awaited": sorted(self._pairs(world.keys.awaited)),
            "changelogs": {p: self._entries(world.keys.changelog(p)) for p in PARTITIONS},
            "dead": {p: self._entries(world.keys.dead(p)) for p in PARTITIONS},
            "keys": self._keys(),
        }

    def _record(self, partition: Partition, record: SnapshotRecord) -> Any:
        """The changelog's ids are times: which commit's it is stands for it."""
        entry = (partition, record.changelog_id)
        position = self.changelog_ids.index(entry) if entry in self.changelog_ids else "none"
        return replace(record, changelog_id="0-0"), position

    def _pairs(self, key: str) -> Iterator[tuple[str, str]]:
        raw = [v.decode() for v in self.world.door.ask("HGETALL", key)]
        return zip(raw[::2], raw[1::2], strict=True)

    def _entries(self, key: str) -> list[Any]:
        return [fields for _, fields in self.world.door.ask("XRANGE", key, "-", "+")]

    def _keys(self) -> set[str]:
        """Names of all keys: nothing is left behind that nobody looks at."""
        prefix = self.world.keys.meta.removesuffix("meta")
        return {k.decode()[len(prefix) :] for k in self.world.door.ask("KEYS", prefix + "*")}


def timeless(one: Any) -> dict[str, Any]:
    """Its facts that two servers have in common: of a time, whether there is one."""
    is_struct = isinstance(one, msgspec.Struct)
    names = one.__struct_fields__ if is_struct else [f.name for f in fields(one)]
    facts = {name: getattr(one, name) for name in names if name not in OF_ONE_SERVER}
    return {name: v > 0 if name.endswith("_ms") else v for name, v in facts.items()}
