"""What is shown of a group: values for pages and sockets, from one reading (dashboard.md 1).

Pure. Desired is the target, reported is what locks and agents say; a partition's state follows from
both. What is not known is None or "unknown", never 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assignment import metrics
from assignment.coordinator.reading import settings_of
from assignment.pauses import Pause
from assignment.scripts.group_read import GroupRead
from assignment.scripts.reports import Report
from assignment.types import Drain, GroupSettings, UnableReason
from assignment.wire import ConsumerHealth
from dashboard.live import reported
from dashboard.live.cells import STATE_INDEX, Cells, cells_of
from dashboard.live.heard import Told
from dashboard.live.ownership import NOBODY, Ownership, Whole
from dashboard.live.progress import UNKNOWN, Progress

MEMBER_STATES = (
    *("joining", "alive", "suspect", "unreachable", "stalled", "unable", "draining", "lost"),
    *("leaving", "stopped"),
)
SUSPECT_BEATS = 2  # so many heartbeats missed
RATE_HOLDS_MS = 10_000  # a rate of events says nothing when no batch ended for so long


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMember:
    id: str
    state: str  # of MEMBER_STATES
    why: str
    owned: int
    targeted: int
    instance: str = ""  # its name is an instance's; "": it is not
    host: str
    version: str
    joined_at_ms: int
    beat_at_ms: int | None
    spark_application_id: str
    rows_per_second: float | None
    batch: int | None
    batch_ms: int | None
    refused_commits: int | None
    dead_letters: int | None
    idle: bool = False  # able and with nothing: there are fewer partitions than members
    leaving: str = ""  # leaving: when others have learned what it owns; forced: at once
    standbys: int = 0
    learning: int = 0
    learners_ready: int = 0
    learned_percent: float | None = None  # mean of its learners; None: none has reported yet


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNumbers:
    partitions: int
    owned: int  # partitions with a live lock
    unowned: int
    conflicts: int
    unknown: int
    members: int
    able: int
    idle: int  # able members without any partition, for there are fewer partitions than members
    lag_records: int | None
    events_per_second: float | None
    applied_total: int | None
    balance_degree: float | None
    max_minus_min: int | None
    score: float | None
    leaving: int = 0  # members; balance is that of those who stay
    learning: int = 0  # partitions that change hands when their learners are ready
    stalled: int = 0  # members that make no progress, with all or with one of their partitions
    paused: int = 0  # partitions that people paused
    pausing: int = 0  # of these, whose owner has not confirmed
    lag_paused: int = 0  # their part of lag_records

    @property
    def pause_progress(self) -> str:
        """For people. Partitions without an owner need no confirmation."""
        confirmed = f"({self.paused - self.pausing} of {self.paused} confirmed)"
        return f"pausing {confirmed}" if self.pausing else "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSnapshot:
    group: str
    at_ms: int
    group_epoch: int
    target_epoch: int
    incarnation: int
    tick_age_ms: int  # since the coordinator ticked over the group last
    numbers: LiveNumbers
    members: tuple[LiveMember, ...]
    partitions: Cells
    position: str = ""  # the last entry of the log of the locks that is in it
    mode: reported.Mode = reported.UNKNOWN_MODE
    pause: Pause | None = None  # of the whole group
    flapping: str = ""  # as the last sample found

    @property
    def progress_age_ms(self) -> int:
        """No lag, offset or commit was read longer ago than this."""
        return max(0, self.at_ms - int(self.partitions.read_ms.min(initial=self.at_ms)))

    @property
    def is_rebalancing(self) -> bool:
        return bool((self.partitions.owner != self.partitions.target).any())


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was read of a group at one moment."""

    read: GroupRead
    settings: GroupSettings
    cells: Cells
    owned: Mapping[str, int]  # member -> partitions
    committed: Mapping[str, int]  # member -> when its partitions were committed last
    learned: Mapping[str, Sequence[reported.LiveReplica]]  # by member

    @cached_property
    def able(self) -> int:
        return sum(member.able for member in self.read.members.values())

    @cached_property
    def read_ms(self) -> int:
        """The cells' oldest."""
        return int(self.cells.read_ms.min())

    def silent_ms(self, member: str) -> int:
        return self.read.now_ms - self.read.beats.get(member, 0)


def build(group: str, told: Told, held: Ownership, progress: Progress) -> LiveSnapshot:
    """Pure: everything shown follows from what was read."""
    read, cells = told.read, cells_of(told, held, progress)
    has = cells.owner != NOBODY
    names, last = cells.names, np.zeros(len(cells.names), np.int64)
    np.maximum.at(last, cells.owner[has], cells.committed_ms[has])
    owned = np.bincount(cells.owner[has], minlength=len(names)).tolist()
    seen = Seen(
        read=read,
        settings=settings_of(read),
        cells=cells,
        owned=dict(zip(names, owned, strict=True)),
        committed=dict(zip(names, last.tolist(), strict=True)),
        learned=_learned(cells.replicas),
    )
    members = tuple(_member(seen, m) for m in sorted(read.members))
    return LiveSnapshot(
        group=group,
        at_ms=read.now_ms,
        group_epoch=read.meta.group_epoch,
        target_epoch=read.meta.target_epoch,
        incarnation=read.meta.incarnation,
        tick_age_ms=read.now_ms - read.meta.tick_ms,
        numbers=_numbers(read, cells, progress.total, members),
        members=members,
        partitions=cells,
        pause=read.pauses.group,
        flapping=read.meta.flapping,
    )


def _learned(replicas: reported.Replicas) -> dict[str, list[reported.LiveReplica]]:
    """Of each member what it learns."""
    learned: dict[str, list[reported.LiveReplica]] = {}
    for number, member in replicas.learners.items():
        if (learner := replicas.learner(number)) is not None:
            learned.setdefault(member, []).append(learner)
    return learned


def _member(seen: Seen, member: str) -> LiveMember:
    row, report = seen.read.members[member], seen.read.reports.get(member)
    learned = seen.learned.get(member, ())
    health = report.consumer if report else None
    target = seen.read.target.get(member)
    percents = [replica.percent for replica in learned if replica.percent is not None]
    state, why = _silence(seen, member, report) or _ability(seen, member)
    return LiveMember(
        id=member,
        state=state,
        why=why,
        owned=seen.owned.get(member, 0),
        targeted=len(target.active) if target else 0,
        instance=row.instance,
        host=row.host,
        version=row.version,
        joined_at_ms=row.joined_at_ms,
        beat_at_ms=seen.read.beats.get(member),
        spark_application_id=health.spark_application_id if health else "",
        rows_per_second=_rate(seen, member, health) if health else None,
        batch=health.batch if health and health.batch >= 0 else None,
        batch_ms=health.batch_ms if health else None,
        refused_commits=health.refused_commits if health else None,
        dead_letters=health.dead_letters if health else None,
        idle=state == "alive" and _is_idle(seen, member),
        leaving=str(Drain.FORCED if row.leaving else row.drain),
        standbys=len(target.standby) if target else 0,
        learning=len(learned),
        learners_ready=sum(replica.ready for replica in learned),
        learned_percent=sum(percents) / len(learned) if percents else None,
    )


def _silence(seen: Seen, member: str, report: Report | None) -> tuple[str, str] | None:
    """The state of one that is not heard of as it should be, and why; None for the others."""
    row = seen.read.members[member]
    if row.stopped:
        left_ms = row.away_since_ms + seen.settings.instance_timeout_ms - seen.read.now_ms
        return "stopped", f"another process is expected within {max(0, left_ms) / 1000:.0f} s"
    silent_ms, session_ms = seen.silent_ms(member), seen.settings.session_timeout_ms
    if silent_ms > session_ms:
        return "lost", _silent_for(silent_ms)
    if report is not None and seen.read.now_ms - report.at_ms > session_ms:
        return "unreachable", "renews its locks, but no heartbeat arrives"
    if silent_ms > SUSPECT_BEATS * seen.settings.heartbeat_ms:
        return "suspect", _silent_for(silent_ms)
    return None


def _silent_for(silent_ms: int) -> str:
    """Not another text at each look: browsers are told of every change."""
    span = f"{silent_ms // 1000} s" if silent_ms >= 1000 else f"{silent_ms} ms"
    return f"no sign of life for {span}"


def _ability(seen: Seen, member: str) -> tuple[str, str]:
    row, report = seen.read.members[member], seen.read.reports.get(member)
    why, state = (report.consumer.why, report.consumer.state) if report else ("", "unknown")
    is_foreign = report is not None and report.unable == UnableReason.WRONG_REDIS
    if is_foreign:
        why = "it reads another Redis than this dashboard: see its --redis-url"
    if row.leaving or row.drain is Drain.FORCED:
        return "draining", why or ("" if row.leaving else "forced out")
    if state == "stalled":
        return "stalled", why or "no batch finished although there is lag"
    if row.able and row.drain is Drain.LEAVING:
        return "leaving", "told to leave: it stays until others have learned what it owns"
    if row.able and not row.away_since_ms:
        words = f"idle: {seen.settings.partitions} partitions, {seen.able} members"
        return "alive", words if _is_idle(seen, member) else ""
    if row.away_since_ms or (not row.able_at_ms and not is_foreign):
        return "joining", why or "its consumer is starting"
    return "unable", why or f"its consumer is {state}"


def _is_idle(seen: Seen, member: str) -> bool:
    """An able member has nothing, and there are fewer partitions than such members."""
    row = seen.read.target.get(member)
    return row is not None and not row.active and seen.able > seen.settings.partitions


def _numbers(
    read: GroupRead, cells: Cells, applied: Whole, members: Sequence[LiveMember]
) -> LiveNumbers:
    states = np.bincount(cells.state, minlength=len(STATE_INDEX)).tolist()
    able = [m for m in members if read.members[m.id].able and m.state not in ("lost", "stopped")]
    loads = [m.owned for m in able if not m.leaving]
    stuck = {cells.names[owner] for owner in np.unique(cells.owner[cells.stuck]).tolist()}
    rates = [m.rows_per_second for m in able if m.rows_per_second is not None]
    return LiveNumbers(
        partitions=len(cells),
        owned=int(np.count_nonzero(cells.owner != NOBODY)),
        unowned=states[STATE_INDEX["unowned"]] + states[STATE_INDEX["unserved"]],
        conflicts=states[STATE_INDEX["conflict"]],
        unknown=states[STATE_INDEX["unknown"]],
        members=len(members),
        able=len(able),
        idle=sum(m.idle for m in members),
        lag_records=None if (cells.lag == UNKNOWN).any() else int(cells.lag.sum()),
        events_per_second=sum(rates) if rates else None,
        applied_total=int(applied.sum()),
        balance_degree=metrics.balance_degree(loads),
        max_minus_min=metrics.max_minus_min(loads),
        score=metrics.score(loads),
        leaving=sum(bool(m.leaving) for m in members),
        learning=len(cells.replicas.learners),
        stalled=sum(m.state == "stalled" or m.id in stuck for m in members),
        paused=int(np.count_nonzero(cells.paused)),
        pausing=int(np.count_nonzero(cells.pausing)),
        lag_paused=int(cells.lag[cells.paused & (cells.lag != UNKNOWN)].sum()),
    )


def _rate(seen: Seen, member: str, health: ConsumerHealth) -> float:
    """Of its last batch, as it says itself; 0 when that is too long ago to be what happens now."""
    idle = seen.read_ms - seen.committed.get(member, 0) > RATE_HOLDS_MS
    return 0.0 if idle else health.rows_per_second
