"""Everything a coordinator decides from, read at one moment: the script read_group."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Self

from assignment import wire
from assignment.scripts.agent_side import SnapshotRecord, read_snapshots
from assignment.scripts.values import Call, Raw, flag, pairs_of, text_of
from assignment.troubles import Unserved
from assignment.types import (
    Coordination,
    Drain,
    Epoch,
    Grant,
    GroupSettings,
    Held,
    Offset,
    Partition,
    ReplicaReport,
    TargetRow,
    read_as,
)


class Gap(NamedTuple):
    """A time in which nobody watched, or Redis was not there."""

    from_ms: int
    until_ms: int

    @classmethod
    def parse(cls, text: str) -> Self:
        from_ms, _, until_ms = text.partition("-")
        return cls(int(from_ms), int(until_ms))


class Purpose(StrEnum):
    REBALANCE = "rebalance"  # takes a new coordinator_epoch first
    TICK = "tick"  # stores the Redis time of the tick
    LOOK = "look"  # changes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """The hash `meta`. `settings` is None when the group was never configured in this Redis."""

    coordination: Coordination = Coordination.SERVER
    identity: str = ""  # of the group, as its dashboard's database has it
    mode_epoch: int = 0
    mode_by: str = ""  # who switched to it, and why; "": it is as the group was made
    mode_reason: str = ""
    group_epoch: int = 0
    target_epoch: int = 0
    target_incarnation: int = 0  # under which the target was stored
    target_at_ms: int = 0  # when the target was stored
    due_since_ms: int = 0  # when a rebalance became due after the last target
    coordinator_epoch: int = 0
    settings_epoch: int = 0
    incarnation: int = 0  # 0 = not set
    incarnation_at_ms: int = 0  # when it was set: before that nothing was granted under it
    run_id: str = ""  # "run_id/replication id" of Redis when the incarnation was set
    tick_ms: int = 0
    served_ms: int = 0  # the last one of a dashboard
    away: tuple[Gap, ...] = ()  # when no tick or no Redis was there: the last ones, newest first
    event_seq: int = 0  # of the last event
    refused_commits: int = 0
    drain_version: int = 0  # of the scale-downs' records that told members last
    settings: GroupSettings | None = None

    @property
    def target(self) -> Epoch:
        return Epoch(self.target_incarnation, self.target_epoch)

    @property
    def mode(self) -> Epoch:
        return Epoch(self.incarnation, self.mode_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow(wire.Introduction):
    """A field of the hash `members`, without the secret."""

    member_id: str
    joined_at_ms: int
    able: bool = False
    able_at_ms: int = 0  # when it last became able
    stopped: bool = False  # its process ended cleanly; another one is expected back
    away_since_ms: int = 0  # last sign of the process before; 0: this one has been able
    leaving: bool = False  # as it said itself: SIGTERM, so leaving and forced
    drain: Drain = Drain.NONE  # as it was told in a scale-down
    ready: frozenset[Partition] = frozenset()  # learners for which it calls for a rebalance
    unserved: frozenset[Partition] = frozenset()  # it cannot serve these now


_ROW_NAMES = frozenset(MemberRow.__dataclass_fields__) - {"member_id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(wire.SeenEpochs):
    """What a member said last: its complete report with every change since."""

    number: int
    sequence: int
    at_ms: int
    owned: Mapping[Partition, Held] = field(default_factory=dict)
    consumer: Mapping[str, Any] = field(default_factory=dict)
    unable: str = ""  # types.UnableReason, "" = able
    replicas: Mapping[Partition, ReplicaReport] = field(default_factory=dict)
    unserved: Mapping[Partition, Unserved] = field(default_factory=dict)


REPORTED_EPOCHS = tuple(wire.SeenEpochs.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class Lock:
    member_id: str
    fence: int
    left_ms: int


@dataclass(frozen=True, slots=True)
class Applied:
    """Events applied in total, and when the last commit was."""

    total: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRead:
    now_ms: int
    run_id: str
    meta: Meta
    members: Mapping[str, MemberRow]
    beats: Mapping[str, int]
    reports: Mapping[str, Report]
    asked: Mapping[str, int]  # member -> since when it owes a complete report
    target: Mapping[str, TargetRow]
    grants: Mapping[Partition, Grant]
    locks: Mapping[Partition, Lock]  # the live ones
    offsets: Mapping[Partition, Offset]
    applied: Mapping[Partition, Applied]
    snapshots: Mapping[Partition, tuple[SnapshotRecord, ...]]

    @property
    def grants_are_possible(self) -> bool:
        """False until the incarnation is set under the Redis that runs now."""
        return self.meta.incarnation > 0 and self.meta.run_id == self.run_id


TICKER_AWAY_MS = 3_000  # no sign of life of whoever ticks for longer: nobody did


class Ticker(NamedTuple):
    """What a tick knows of ticking, by the clock of Redis: its own last sign of life, and when
    nobody ticked at all the last time.
    """

    seen_ms: int = 0
    away: Gap = Gap(0, 0)
    serves: bool = True  # a dashboard's, no agent's


NO_TICK = Ticker()


def read_group(purpose: Purpose, ticker: Ticker = NO_TICK) -> Call[GroupRead]:
    since = ticker.seen_ms and ticker.seen_ms + TICKER_AWAY_MS
    numbers = map(str, (*ticker.away, ticker.seen_ms, since))
    return Call("read_group", [purpose.value, *numbers, flag(ticker.serves)], _group_read)


def _group_read(raw: Raw) -> GroupRead:
    now_ms = int(raw[0])
    grants = {Partition.parse(p): wire.parse_grant(v.decode()) for p, v in pairs_of(raw[8])}
    return GroupRead(
        now_ms=now_ms,
        run_id=text_of(raw[1]),
        meta=read_meta(raw[2]),
        members={m: read_member(m, v) for m, v in pairs_of(raw[3])},
        beats={m: int(float(v)) for m, v in pairs_of(raw[4])},
        reports={m: read_report(v) for m, v in pairs_of(raw[5])},
        asked={m: int(v) for m, v in pairs_of(raw[6])},
        target={m: wire.parse_target(v.decode()) for m, v in pairs_of(raw[7])},
        grants=grants,
        locks=_locks(raw[9], grants, now_ms),
        offsets={Partition.parse(p): Offset.parse(v.decode()) for p, v in pairs_of(raw[10])},
        applied={Partition.parse(p): _applied(v) for p, v in pairs_of(raw[11])},
        snapshots={Partition.parse(p): read_snapshots(v) for p, v in pairs_of(raw[12])},
    )


def read_meta(raw: Raw) -> Meta:
    """From HGETALL of the key `meta`."""
    values = {name: value.decode() for name, value in pairs_of(raw)}
    settings, away = values.pop("settings", ""), values.pop("away", "")
    return replace(
        read_as(Meta, values, from_texts=True),
        settings=wire.parse_settings(settings) if settings else None,
        away=tuple(map(Gap.parse, away.split())),
    )


def read_member(member_id: str, raw: bytes) -> MemberRow:
    """A field of the hash `members`."""
    row = {k: v for k, v in json.loads(raw).items() if k in _ROW_NAMES and v is not None}
    drain, ready = Drain(row.pop("drain", "")), wire.partitions_of(row.pop("ready", "").split())
    unserved = wire.partitions_of(row.pop("unserved", "").split())
    return MemberRow(member_id=member_id, drain=drain, ready=ready, unserved=unserved, **row)


def read_report(raw: bytes) -> Report:
    """`number sequence at_ms length <complete><changes>`, the length in bytes."""
    number, sequence, at_ms, length, rest = raw.split(b" ", 4)
    complete, changes = json.loads(rest[: int(length)]), json.loads(rest[int(length) :])
    said = complete | changes
    owned = {**complete.get("owned", {}), **changes.get("owned", {})}
    return Report(
        number=int(number),
        sequence=int(sequence),
        at_ms=int(at_ms),
        owned={Partition.parse(p): wire.parse_held(v) for p, v in owned.items() if v is not None},
        consumer=changes.get("consumer") or complete.get("consumer") or {},
        unable=str(said.get("unable", "")),
        **{name: said.get(name, 0) for name in REPORTED_EPOCHS},
        replicas={
            Partition.parse(p): read_as(ReplicaReport, values)
            for p, values in said.get("replicas", {}).items()
        },
        unserved={
            Partition.parse(p): read_as(Unserved, values)
            for p, values in said.get("unserved", {}).items()
        },
    )


def _locks(raw: Raw, grants: Mapping[Partition, Grant], now_ms: int) -> dict[Partition, Lock]:
    locks = {}
    for name, value in pairs_of(raw):
        partition = Partition.parse(name)
        member_id, fence = wire.parse_lock(value.decode())
        locks[partition] = Lock(member_id, fence, max(0, grants[partition].until_ms - now_ms))
    return locks


def _applied(raw: bytes) -> Applied:
    total, at_ms = raw.split(b" ")
    return Applied(int(total), int(at_ms))
