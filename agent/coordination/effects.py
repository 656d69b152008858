"""Carries out what a group's rules ask for: in Redis, and beside the snapshots; no database."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agent.consumer.control import monotonic_ms
from agent.coordination.memory import Memory, NotKept
from agent.membership import Note
from agent.store.door import ScriptCall, pairs
from agent.store.group import GroupStore
from assignment.coordinator import effects
from assignment.coordinator.effects import Effect, RecordsAway, Steps
from assignment.coordinator.facts import Hint, Lifted, Mirror, Round
from assignment.coordinator.outbox import Run, text_of
from assignment.coordinator.reading import is_held
from assignment.scripts import recovery
from assignment.scripts.dashboard_side import configure, set_incarnation, set_target
from assignment.scripts.group_read import NO_TICK, GroupRead, Ticker, read_group
from assignment.types import START, GroupSettings, Offset, Partition, Reason
from assignment.wire import StreamKeys

WORDS = frozenset(Reason)
T = TypeVar("T")


class RedisEffects:
    """One run of rules, by a member. `rebalance_wanted`: they asked for one; `ticker`: see
    read_group.
    """

    def __init__(
        self, store: GroupStore, by: str, note: Note, memory: Memory, ticker: Ticker = NO_TICK
    ) -> None:
        self.store, self.by, self.note, self.memory, self.ticker = store, by, note, memory, ticker
        self.began_ms = monotonic_ms()
        self.rebalance_wanted = False
        self.view: GroupRead | None = None  # the last one

    def carry_out(self, steps: Steps[T]) -> T:
        """Raises StoreUnavailable."""
        return effects.run(steps, self.perform)

    def perform(self, effect: Effect[Any]) -> Any:
        kind = type(effect)
        if kind not in PERFORM:
            raise RecordsAway("there is no database here")
        return PERFORM[kind](self, effect)

    def _read(self, effect: effects.Read) -> GroupRead:
        self.view = self.store.run(read_group(effect.purpose, self.ticker))
        return self.view

    def _read_settings(self, effect: effects.ReadSettings) -> tuple[GroupSettings | None, int]:
        meta = self.store.meta()
        return meta.settings, meta.settings_epoch

    def _read_hints(self, effect: effects.ReadHints) -> tuple[Hint, ...]:
        control = self.store.keys.control
        entries = self.store.door.ask("XRANGE", control, "-", "+")
        return tuple(
            Hint(Reason(values["reason"]), int(values["epoch"]), values["member"], at_ms)
            for at_ms, values in map(_entry, entries)
            if values["reason"] in WORDS
        )

    def _read_now(self, effect: effects.ReadNow) -> int:
        return self.store.now_ms()

    def _configure(self, effect: effects.Configure) -> None:
        call = configure(
            effect.settings,
            effect.reason,
            rebalance_due=effect.rebalance_due,
            over_epoch=effect.over_epoch,
            coordination=effect.coordination,
        )
        self.store.run(call)
        self.store.note_reader(effect.settings)

    def _hold(self, effect: effects.Hold) -> None:
        self.store.run(recovery.hold(effect.lease_ms))

    def _read_held(self, effect: effects.ReadHeld) -> bool:
        return self.store.run(recovery.hold())

    def _lift(self, effect: effects.LiftStreams) -> dict[Partition, Lifted]:
        return {p: self._lift_one(p, o, effect.restored) for p, o in effect.offsets.items()}

    def _lift_one(
        self, partition: Partition, offset: Offset, restored: Mapping[Partition, Offset]
    ) -> Lifted:
        of, number = StreamKeys(partition.stream), partition.number
        keys = (of.entries(number), of.producers(number))
        call = ScriptCall("lift", keys, [str(offset), str(restored.get(partition, START))])
        early, events = self.store.door.run(call)
        return Lifted(int(early), int(events) if events else None)

    def _raise_incarnation(self, effect: effects.RaiseIncarnation) -> bool:
        call = set_incarnation(effect.incarnation, effect.run_id, effect.known)
        return self.store.run(call)[0]

    def _want_rebalance(self, effect: effects.WantRebalance) -> None:
        self.rebalance_wanted = True

    def _read_round(self, effect: effects.ReadRound) -> Round | None:
        """The stored target, as one that may have been cut short: nobody recorded it."""
        if self.view is None or self.view.meta.target_at_ms is None:
            return None
        meta, at_ms = self.view.meta, self.view.meta.target_at_ms
        return Round(
            pk=0,
            incarnation=meta.target.incarnation,
            target_epoch=meta.target.number,
            at_ms=at_ms,
            detect_ms=0,
            moved=len(self.view.grants),
            finished_at_ms=at_ms if is_held(self.view) else None,
        )

    def _keep_incarnation(self, effect: effects.KeepIncarnation) -> bool:
        """Raises StateError: another may have chosen the same one."""
        try:
            return self.memory.keep(effect.incarnation)
        except NotKept as error:
            raise RecordsAway(str(error)) from error

    def _read_mirror(self, effect: effects.ReadMirror) -> Mirror:
        if self.view is None or self.view.meta.settings is None:
            raise RecordsAway("the group is not in Redis")
        return self.memory.mirror(self.view.meta.settings)

    def _keep_loss(self, effect: effects.KeepLoss) -> None:
        moved = {str(partition): str(record.offset) for partition, record in effect.moved.items()}
        self.note("redis lost writes", moved_forward_to=moved)

    def _set_target(self, effect: effects.SetTarget) -> str | None:
        text = ""
        if effect.view.meta.identity:  # a dashboard knows the group, and keeps its history
            text = text_of(effect.record, Run(self.by, monotonic_ms() - self.began_ms))
        assert not effect.raises, "people ask dashboards"
        call = set_target(effect.view, effect.record.rows, text, left_out=effect.left_out)
        return self.store.run(call)


PERFORM: Mapping[type[Effect[Any]], Callable[[RedisEffects, Any], Any]] = {
    effects.Read: RedisEffects._read,
    effects.ReadSettings: RedisEffects._read_settings,
    effects.ReadHints: RedisEffects._read_hints,
    effects.ReadNow: RedisEffects._read_now,
    effects.Run: lambda self, effect: self.store.run(effect.call),
    effects.Configure: RedisEffects._configure,
    effects.Hold: RedisEffects._hold,
    effects.ReadHeld: RedisEffects._read_held,
    effects.LiftStreams: RedisEffects._lift,
    effects.RaiseIncarnation: RedisEffects._raise_incarnation,
    effects.WantRebalance: RedisEffects._want_rebalance,
    effects.SetTarget: RedisEffects._set_target,
    effects.KeepIncarnation: RedisEffects._keep_incarnation,
    effects.ReadMirror: RedisEffects._read_mirror,
    effects.KeepLoss: RedisEffects._keep_loss,
    effects.ReadRequests: lambda self, effect: (),  # people ask dashboards
    effects.ReadRound: RedisEffects._read_round,
    effects.Push: lambda self, effect: None,
}


def _entry(raw: Any) -> tuple[int, dict[str, str]]:
    """(ms of its id, fields)"""
    entry_id, fields = raw
    values = {name.decode(): value.decode() for name, value in pairs(fields)}
    return int(entry_id.partition(b"-")[0]), values
