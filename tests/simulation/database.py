"""What outlives Redis, as dicts: the records that the rules read and have kept."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assignment.coordinator import effects, facts
from assignment.coordinator.effects import Effect
from assignment.coordinator.facts import Hint, Mirror, Round, ScaleDown, ScaleDowns, Stay, Tenures
from assignment.pauses import Pauses
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import NO_EPOCH, Coordination, Epoch, GroupSettings, Partition, Reason
from tests.fakes.values import Id, t
from tests.simulation.ledger import demand

if TYPE_CHECKING:
    from tests.simulation.world import World

Key = tuple[int, int]  # incarnation, target_epoch


@dataclass
class Database:
    settings: GroupSettings
    coordination: Coordination = Coordination.SERVER
    mode: Epoch = NO_EPOCH  # under which that was kept
    incarnation: int = 0
    targets: dict[Key, str] = field(default_factory=dict)  # -> cause, in the order of storing
    completed: set[Key] = field(default_factory=set)
    stays: dict[tuple[str, int], Stay] = field(default_factory=dict)
    snapshots: dict[Partition, SnapshotRecord] = field(default_factory=dict)
    scale_downs: tuple[ScaleDown, ...] = ()  # the newest first
    version: int = 0  # of these
    pauses: Pauses = field(default_factory=Pauses)
    refuses: bool = False
    has_second: bool = False  # a group that reads the same stream

    def copied(self) -> "Database":
        """As it is now; what stands in it is never changed."""
        return Database(**{name: copy(value) for name, value in vars(self).items()})

    def knows(self, incarnation: int) -> bool:
        is_new = incarnation > self.incarnation
        self.incarnation = max(self.incarnation, incarnation)
        return is_new

    @property
    def known(self) -> ScaleDowns:
        return ScaleDowns(version=self.version, records=self.scale_downs)

    def change(self, *changed: ScaleDown) -> None:
        """In one transaction; who read an older version is refused."""
        news = {row.pk: row for row in changed}
        kept = tuple(news.pop(row.pk, row) for row in self.scale_downs)
        self.scale_downs = (*news.values(), *kept)
        self.version += 1


def hints(world: "World") -> tuple[Hint, ...]:
    return tuple(
        Hint(Reason(row["reason"]), int(row["epoch"]), row["member"], entry_id[0])
        for entry_id, row in _stream(world, world.keys.control)
    )


def _stream(world: "World", key: str) -> list[tuple[Id, dict[str, str]]]:
    return [
        (entry_id, dict(zip(map(t, fields[::2]), map(t, fields[1::2]), strict=True)))
        for entry_id, fields in world.server.entries(key)
    ]


def _keep_outbox(world: "World", effect: effects.KeepOutbox) -> bool:
    rows = [] if world.server.away else _stream(world, world.keys.outbox)
    for entry_id, row in rows:
        key = (int(row["incarnation"]), int(row["epoch"]))
        world.database.targets.setdefault(key, row["record"])
        world.database.knows(key[0])
        world.server.ask("XDEL", world.keys.outbox, f"{entry_id[0]}-{entry_id[1]}")
    return bool(rows)


def _read_mirror(world: "World", effect: effects.ReadMirror) -> Mirror:
    snapshots = dict(world.database.snapshots)
    return Mirror(
        target_epoch=max((epoch for _, epoch in world.database.targets), default=0),
        event_seq=0,
        snapshots=snapshots,
        offsets={partition: record.offset for partition, record in snapshots.items()},
    )


def keep_mirror(world: "World") -> None:
    """What a wipe leaves."""
    if not world.server.away:
        kept = world.database.snapshots
        for partition, (newest, *_) in world.read().snapshots.items():
            if partition not in kept or newest.rank > kept[partition].rank:
                kept[partition] = newest


def _keep_faults(world: "World", effect: effects.KeepFaults) -> None:
    of_whom = {text: text.removeprefix("what ").split()[0] for _, text in effect.faults}
    faults = [text for text, member in of_whom.items() if member not in world.liars]
    demand(not faults, "; ".join(faults))


def _read_stays(world: "World", effect: effects.ReadStays) -> tuple[Stay, ...]:
    return tuple(stay for stay in world.database.stays.values() if stay.left_at_ms is None)


def _keep_stays(world: "World", effect: effects.KeepStays) -> None:
    for stay in effect.stays:
        # A clock set between view and join makes either older: the next tick puts it right.
        excused = world.struck["redis lost writes"] or world.struck["redis clock was set"]
        if stay.end is not None and not excused:
            row = world.read().members.get(stay.member_id)
            here = row is not None and row.joined_at_ms == stay.joined_at_ms
            demand(not here, f"{stay.member_id} is noted as gone, and is a member since then")
        world.database.stays[(stay.member_id, stay.joined_at_ms)] = stay


def _read_scale_downs(world: "World", effect: effects.ReadScaleDowns) -> ScaleDowns:
    kept = world.database
    records = tuple(
        row
        for row in kept.scale_downs
        if row.state is facts.State.RUNNING
        or (row.state is facts.State.DONE and (row.ended_at_ms or 0) >= effect.ended_since_ms)
    )
    return ScaleDowns(version=kept.version, records=records)


def _keep_scale_downs(world: "World", effect: effects.KeepScaleDowns) -> bool:
    kept = world.database
    if kept.version != effect.version:
        world.reached["scale-down: race lost"] += 1
        return False
    before = {row.pk: row for row in kept.scale_downs}
    for row in effect.changed:
        for member, leaver in row.members.items():
            if leaver.outcome and not before[row.pk].members[member].outcome:
                world.reached[f"scale-down: {leaver.outcome}"] += 1
    kept.change(*effect.changed)
    kept.version = effect.next_version
    return True


def _read_round(world: "World", effect: effects.ReadRound) -> Round | None:
    kept = world.database
    key = next(reversed(kept.targets), None)
    if key is None or key in kept.completed:
        return None
    return Round(
        pk=len(kept.targets), incarnation=key[0], target_epoch=key[1], at_ms=0, detect_ms=0
    )


def _complete(world: "World", effect: effects.Complete) -> None:
    world.database.completed.add(list(world.database.targets)[effect.pk - 1])


def _keep_mode(world: "World", effect: effects.KeepMode) -> effects.ModeKept:
    if effect.mode > world.database.mode:
        world.database.coordination, world.database.mode = effect.coordination, effect.mode
    return effects.ModeKept.KNOWN


NOT_KEPT = (
    effects.KeepLoss, effects.KeepForced, effects.RefuseRequest, effects.KeepRefusal,
    effects.KeepFirstEffect, effects.AdvancePlans,
)  # fmt: skip
PERFORM: Mapping[type[Effect[Any]], Callable[["World", Any], Any]] = {
    **dict.fromkeys(NOT_KEPT, lambda world, effect: None),
    **dict.fromkeys((effects.ReadRequests, effects.ReadFinished), lambda world, effect: ()),
    effects.KeepOutbox: _keep_outbox,
    effects.WantHistory: lambda world, effect: True,  # the checks read it from Redis
    effects.KeepIncarnation: lambda world, effect: world.database.knows(effect.incarnation),
    effects.KeepMode: _keep_mode,
    effects.KeepFaults: _keep_faults,
    effects.ReadMirror: _read_mirror,
    effects.ReadStays: _read_stays,
    effects.KeepStays: _keep_stays,
    effects.ReadScaleDowns: _read_scale_downs,
    effects.KeepScaleDowns: _keep_scale_downs,
    effects.ReadRound: _read_round,
    effects.ReadTenures: lambda world, effect: Tenures(last_start_ms=0, last_end_ms=0, begun=()),
    effects.ReadOpen: lambda world, effect: (),
    effects.Complete: _complete,
}
