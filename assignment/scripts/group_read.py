"""Everything a coordinator decides from, read at one moment: the script read_group."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple, Self

from assignment import sizes, wire
from assignment.bounds import (
    MOMENT_MAX,
    Incarnation,
    Moment,
    Whole,
    Words,
    moment_of,
)
from assignment.columns import Index, Numbers, Places
from assignment.errors import Damaged
from assignment.pauses import Pauses, PauseState, states_of
from assignment.scripts.agent_side import SnapshotRecord, read_snapshots
from assignment.scripts.glance import COUNTED, counted_of
from assignment.scripts.held import Grants, Locks
from assignment.scripts.pausing import read_confirmed, read_pauses
from assignment.scripts.reports import Report, Reports
from assignment.scripts.rows import (
    UNREADABLE,
    Applied,
    AppliedRows,
    Offsets,
    each,
    remembered,
    why_unreadable,
)
from assignment.scripts.values import Call, Raw, columns_of, flag, pairs_of, text_of
from assignment.types import (
    Coordination,
    Drain,
    Epoch,
    GroupSettings,
    Offset,
    Partition,
    TargetRow,
    read_as,
    valid_name,
)


class Gap(NamedTuple):
    """A time in which nobody watched, or Redis was not there."""

    from_ms: int
    until_ms: int

    @classmethod
    def parse(cls, text: str) -> Self:
        from_ms, _, until_ms = text.partition("-")
        return cls(moment_of(from_ms), moment_of(until_ms))


class Purpose(StrEnum):
    # Takes a new coordinator_epoch first; of offsets, snapshots and applied only what weighs.
    REBALANCE = "rebalance"
    TICK = "tick"  # stores the Redis time of the tick
    LOOK = "look"  # changes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """The hash `meta`. `settings` is None when the group was never configured in this Redis."""

    coordination: Coordination = Coordination.SERVER
    identity: str = ""  # of the group, as its dashboard's database has it
    mode_epoch: Whole = 0
    mode_by: str = ""  # a note of who switched to it, and why; "": it is as the group was made
    mode_reason: str = ""
    group_epoch: Whole = 0
    target_epoch: Whole = 0
    target_incarnation: Incarnation = 0  # under which the target was stored
    target_at_ms: Moment = 0  # when the target was stored
    due_since_ms: Moment = 0  # when a rebalance became due after the last target
    coordinator_epoch: Whole = 0
    settings_epoch: Whole = 0
    incarnation: Incarnation = 0  # 0 = not set
    incarnation_at_ms: Moment = 0  # when it was set: before that nothing was granted under it
    run_id: str = ""  # "run_id/replication id" of Redis when the incarnation was set
    tick_ms: Moment = 0  # when the group was looked at last; see reading.ticked
    served_ms: Moment = 0  # the last one of a dashboard
    away: tuple[Gap, ...] = ()  # when no tick or no Redis was there: the last ones, newest first
    event_seq: Whole = 0  # of the last event
    refused_commits: Whole = 0
    drain_version: Whole = 0  # of the scale-downs' records that told members last
    pause_version: Whole = 0  # of the pauses that stand
    flapping: Words = ""  # who or what goes back and forth, as the last sample found
    settings: GroupSettings | None = None

    @property
    def target(self) -> Epoch:
        return Epoch(self.target_incarnation, self.target_epoch)

    @property
    def mode(self) -> Epoch:
        return Epoch(self.incarnation, self.mode_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row(wire.Introduction):
    joined_at_ms: Moment
    able: bool = False
    able_at_ms: Moment = 0  # when it last became able
    stopped: bool = False  # its process ended cleanly; another one is expected back
    away_since_ms: Moment = 0  # last sign of the process before; 0: this one has been able
    leaving: bool = False  # as it said itself: SIGTERM, so leaving and forced


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow(_Row):
    """A field of the hash `members`, without the secret."""

    member_id: str
    drain: Drain = Drain.NONE  # as it was told in a scale-down
    ready: frozenset[Partition] = frozenset()  # learners for which it calls for a rebalance
    unserved: frozenset[Partition] = frozenset()  # it cannot serve these now


MEMBERS_KEPT = sizes.MEMBERS_MAX  # rows, a kilobyte each
_ROW_NAMES = tuple(_Row.__dataclass_fields__)


@dataclass(frozen=True, kw_only=True)
class GroupRead:
    """`grants` and `locks` may be made of any mapping; they are rows in arrays."""

    now_ms: int
    run_id: str
    meta: Meta
    members: Mapping[str, MemberRow]
    beats: Mapping[str, int]
    reports: Mapping[str, Report]
    asked: Mapping[str, int]  # member -> since when it owes a complete report
    target: Mapping[str, TargetRow]
    grants: Grants
    locks: Locks
    offsets: Mapping[Partition, Offset]
    applied: Mapping[Partition, Applied]
    snapshots: Mapping[Partition, tuple[SnapshotRecord, ...]]
    pauses: Pauses = field(default_factory=Pauses)
    confirmed: Mapping[Partition, int] = field(default_factory=dict)  # paused, told under a fence
    bad_members: Mapping[str, str] = field(default_factory=dict)  # rows that are left out -> why
    bad_claims: Mapping[str, str] = field(default_factory=dict)  # members, and why nobody counts it
    ends: Mapping[str, int] = field(default_factory=dict)  # member -> none of its locks ends before
    counted: str = ""  # `counted_of` meta

    def __post_init__(self) -> None:
        object.__setattr__(self, "grants", Grants.of(self.grants))
        object.__setattr__(self, "locks", Locks.of(self.locks))

    @cached_property
    def index(self) -> Index:
        """Of every partition that is named anywhere in it."""
        settings = self.meta.settings
        return Index(settings.stream, settings.partitions) if settings else Index("", 0)

    @cached_property
    def given(self) -> Mapping[str, Numbers]:
        """Member -> the active partitions of its row in `target`, by `index`."""
        return {m: self.index.at(Places.of(row.active)) for m, row in self.target.items()}

    @property
    def bad_reports(self) -> Mapping[str, str]:
        """Those that cannot be read and are left out -> why."""
        return self.reports.bad if isinstance(self.reports, Reports) else {}

    def has_reported(self, member_id: str) -> bool:
        """Whether it ever sent a heartbeat since it joined, whatever is in it."""
        reports = self.reports
        return member_id in (reports.stored if isinstance(reports, Reports) else reports)

    def paused(self, partitions: Iterable[Partition]) -> dict[Partition, PauseState]:
        """How far each is, of those that people paused."""
        fences = {partition: lock.fence for partition, lock in self.locks.items()}
        return states_of(self.pauses, partitions, fences, self.confirmed)

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


def read_group(purpose: Purpose, ticker: Ticker = NO_TICK, *more: str) -> Call[GroupRead]:
    """`more`: arguments for large groups (large_group.py)."""
    since = ticker.seen_ms and ticker.seen_ms + TICKER_AWAY_MS
    numbers = map(str, (*ticker.away, ticker.seen_ms, since))
    return Call("read_group", [purpose.value, *numbers, flag(ticker.serves), *more], group_in)


LocksOf = Callable[[Sequence[Any], Places], Sequence[bytes | None]]


def _in_order(pieces: Sequence[Any], _: Places) -> Sequence[bytes | None]:
    return list(chain.from_iterable(pieces))


def group_in(raw: Raw, locks_of: LocksOf = _in_order) -> GroupRead:
    """`locks_of`: of the pieces in the answer, one for each partition that was granted. Raises
    Damaged; what one member may have written harms only its own row.
    """
    try:
        return _read_all(raw, locks_of)
    except UNREADABLE as error:
        raise Damaged(f"the group's records are damaged: {why_unreadable(error)}") from error


def _read_all(raw: Raw, locks_of: LocksOf) -> GroupRead:
    now_ms, meta = int(raw[0]), read_meta(raw[2])
    members, bad_members = each(pairs_of(raw[3]), read_member)
    grants = Grants.parse(columns_of(raw[8]))
    return GroupRead(
        now_ms=now_ms,
        run_id=text_of(raw[1]),
        meta=meta,
        members=members,
        bad_members=bad_members,
        beats={m: beat_of(v) for m, v in pairs_of(raw[4])},
        reports=Reports(pairs_of(raw[5])),
        asked={m: moment_of(v) for m, v in pairs_of(raw[6])},
        target={m: _read_target(v) for m, v in pairs_of(raw[7])},
        grants=grants,
        locks=Locks.parse(locks_of(raw[9], grants.places), grants, now_ms),
        offsets=Offsets.parse(columns_of(raw[10])),
        applied=AppliedRows.parse(columns_of(raw[11])),
        snapshots={Partition.parse(p): read_snapshots(v) for p, v in pairs_of(raw[12])},
        pauses=read_pauses(meta.pause_version, raw[13]),
        confirmed=read_confirmed(raw[14]),
        ends={m: beat_of(v) for m, v in pairs_of(raw[15])},
        counted=counted_of(map(dict(pairs_of(raw[2])).get, COUNTED)),
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


@lru_cache(MEMBERS_KEPT)
def read_member(member_id: str, raw: bytes) -> MemberRow:
    """A field of the hash `members`. Mostly it is the same again."""
    values = {name: value for name, value in json.loads(raw).items() if value is not None}
    row = read_as(_Row, values)
    return MemberRow(
        **{name: getattr(row, name) for name in _ROW_NAMES},
        member_id=valid_name("member", member_id),
        drain=Drain(values.get("drain", "")),
        ready=wire.partitions_of(values.get("ready", "").split()),
        unserved=wire.partitions_of(values.get("unserved", "").split()),
    )


@remembered
def _read_target(raw: bytes) -> TargetRow:
    return wire.parse_target(raw.decode())


def beat_of(score: bytes) -> int:
    """The script of the tick sets one that lies in the future to now."""
    return int(min(max(float(score), 0), MOMENT_MAX))
