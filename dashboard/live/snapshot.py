"""What is shown of a group: values for pages and sockets, from one reading (dashboard.md 1).

Pure. Desired is the target, reported is what locks and agents say; a partition's state follows from
both. What is not known is None or "unknown", never 0.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assignment import metrics
from assignment.coordinator.reading import settings_of
from assignment.pauses import Pause, PauseState
from assignment.scripts.group_read import GroupRead, Lock, Report
from assignment.scripts.rows import Since
from assignment.troubles import Halted
from assignment.types import Drain, GroupSettings, Held, HeldState, Partition, UnableReason
from assignment.wire import ConsumerHealth
from dashboard.live import reported
from dashboard.live.group_state import STUCK_MS

PARTITION_STATES = (
    *("owned", "acquiring", "releasing", "unowned", "conflict", "unknown", "restoring"),
    *("halted", "unserved", "pausing", "paused"),
)
MEMBER_STATES = (
    *("joining", "alive", "suspect", "unreachable", "stalled", "unable", "draining", "lost"),
    *("leaving", "stopped"),
)
_STATE_OF_HELD = {
    HeldState.RESTORING: "restoring",
    HeldState.RUNNING: "owned",
    HeldState.REVOKING: "releasing",
    HeldState.REVOKED: "releasing",
}
SUSPECT_BEATS = 2  # so many heartbeats missed
RATE_HOLDS_MS = 10_000  # a rate of events says nothing when no batch ended for so long


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePartition:
    partition: str  # stream:number
    number: int
    owner: str | None
    fence: str | None  # as text: JavaScript keeps 53 bits only in whole numbers it does not touch
    state: str  # of PARTITION_STATES
    since_ms: int | None  # when this fence was granted
    target: str | None  # who should have it
    offset: str | None  # committed
    committed_at_ms: int | None  # its last commit
    lag_records: int | None
    waiting_ms: int | None = None  # so long an event waits, and its owner has committed nothing
    standbys: tuple[reported.LiveReplica, ...] = ()
    learner: reported.LiveReplica | None = None
    halt: Halted | None = None  # it stands still there until a person does something
    unserved: tuple[reported.LiveUnserved, ...] = ()  # by these members for now
    pause: Pause | None = None  # by a person; the state says whether its owner has confirmed


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
    tick_age_ms: int  # since the coordinator looked at the group last
    numbers: LiveNumbers
    members: tuple[LiveMember, ...]
    partitions: tuple[LivePartition, ...]
    mode: reported.Mode = reported.UNKNOWN_MODE
    pause: Pause | None = None  # of the whole group


@dataclass(frozen=True, slots=True)
class Backlog:
    """Of one partition's stream. None: Redis cannot tell, or nothing waits."""

    events: int | None  # that it ever got
    first_ms: int | None = None  # when the first one that is not committed came


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read of a group at one moment."""

    read: GroupRead
    settings: GroupSettings
    since: Mapping[Partition, Since]
    backlog: Sequence[Backlog]  # by partition number
    targets: Mapping[Partition, str]
    claims: Mapping[Partition, Mapping[str, Held]]  # who says to hold what, by reports
    replicas: Mapping[Partition, reported.LiveReplicas]
    troubles: reported.Troubles
    committed: Mapping[str, int]  # owner -> when its partitions were committed last
    paused: Mapping[Partition, PauseState]

    def silent_ms(self, member: str) -> int:
        return self.read.now_ms - self.read.beats.get(member, 0)


def build(
    group: str, read: GroupRead, since: Mapping[Partition, Since], backlog: Sequence[Backlog]
) -> LiveSnapshot:
    """Pure: everything shown follows from what was read."""
    settings = settings_of(read)
    seen = Seen(
        read=read,
        settings=settings,
        since=since,
        backlog=backlog,
        targets={p: member for member, row in read.target.items() for p in row.active},
        claims=_claims(read),
        replicas=reported.replicas_of(read),
        troubles=reported.Troubles.of(read),
        committed=_last_commits(read),
        paused=read.paused(settings.all_partitions()),
    )
    partitions = tuple(_partition(seen, p) for p in settings.all_partitions())
    loads = Counter(row.owner for row in partitions)
    learned = _learners(seen.replicas)
    members = tuple(_member(seen, m, loads[m], learned.get(m, [])) for m in sorted(read.members))
    return LiveSnapshot(
        group=group,
        at_ms=read.now_ms,
        group_epoch=read.meta.group_epoch,
        target_epoch=read.meta.target_epoch,
        incarnation=read.meta.incarnation,
        tick_age_ms=read.now_ms - read.meta.tick_ms,
        numbers=_numbers(seen, partitions, members),
        members=members,
        partitions=partitions,
        pause=read.pauses.group,
    )


def _claims(read: GroupRead) -> dict[Partition, dict[str, Held]]:
    claims: dict[Partition, dict[str, Held]] = {}
    for member, report in read.reports.items():
        for partition, held in report.owned.items():
            claims.setdefault(partition, {})[member] = held
    return claims


def _learners(
    replicas: Mapping[Partition, reported.LiveReplicas],
) -> dict[str, list[reported.LiveReplica]]:
    """Of each member."""
    learned: dict[str, list[reported.LiveReplica]] = {}
    for of_it in replicas.values():
        if of_it.learner is not None:
            learned.setdefault(of_it.learner.member, []).append(of_it.learner)
    return learned


def _partition(seen: Seen, partition: Partition) -> LivePartition:
    read, backlog = seen.read, seen.backlog[partition.number]
    lock = read.locks.get(partition)
    granted = seen.since.get(partition)
    since_ms = granted.at_ms if lock and granted and granted.fence == lock.fence else None
    applied, offset = read.applied.get(partition), read.offsets.get(partition)
    done, committed_at_ms = (applied.total, applied.at_ms) if applied else (0, None)
    replicas = seen.replicas.get(partition, reported.NO_REPLICAS)
    return LivePartition(
        partition=str(partition),
        number=partition.number,
        owner=lock.member_id if lock else None,
        fence=str(lock.fence) if lock else None,
        state=_state(seen, partition, lock, since_ms),
        since_ms=since_ms,
        target=seen.targets.get(partition),
        offset=str(offset) if offset else None,
        committed_at_ms=committed_at_ms,
        lag_records=None if backlog.events is None else max(0, backlog.events - done),
        waiting_ms=_waiting_ms(read.now_ms, backlog.first_ms, since_ms, committed_at_ms),
        standbys=replicas.standbys,
        learner=replicas.learner,
        halt=seen.troubles.halt(partition, lock),
        unserved=tuple(seen.troubles.unserved.get(partition, {}).values()),
        pause=read.pauses.of(partition),
    )


def _waiting_ms(
    now_ms: int, first_ms: int | None, since_ms: int | None, committed_at_ms: int | None
) -> int | None:
    if first_ms is None or since_ms is None:
        return None
    return max(0, now_ms - max(first_ms, since_ms, committed_at_ms or 0))


def _state(seen: Seen, partition: Partition, lock: Lock | None, since_ms: int | None) -> str:
    if lock is None:
        return "unserved" if seen.troubles.nobody_serves(partition) else "unowned"
    claims = seen.claims.get(partition, {})
    others = {member: held for member, held in claims.items() if member != lock.member_id}
    if any(_still_claims(seen, member, held, since_ms) for member, held in others.items()):
        return "conflict"
    if seen.silent_ms(lock.member_id) > seen.settings.session_timeout_ms:
        return "unknown"
    held = claims.get(lock.member_id)
    if held is None or held.fence != lock.fence:  # granted; its agent has not reported it yet
        return "acquiring"
    if held.state is HeldState.RUNNING and (paused := seen.paused.get(partition)):
        return paused.value
    is_halted = held.state is HeldState.RUNNING and seen.troubles.halt(partition, lock)
    return "halted" if is_halted else _STATE_OF_HELD[held.state]


def _still_claims(seen: Seen, member: str, held: Held, since_ms: int | None) -> bool:
    """A second owner: it said so after the lock went to somebody else, and means to process."""
    works = held.state in (HeldState.RUNNING, HeldState.REVOKING)
    return works and since_ms is not None and seen.read.reports[member].at_ms > since_ms


def _member(
    seen: Seen, member: str, owned: int, learned: Sequence[reported.LiveReplica]
) -> LiveMember:
    row, report = seen.read.members[member], seen.read.reports.get(member)
    health = report.consumer if report else None
    target = seen.read.target.get(member)
    percents = [replica.percent for replica in learned if replica.percent is not None]
    state, why = _silence(seen, member, report) or _ability(seen, member)
    return LiveMember(
        id=member,
        state=state,
        why=why,
        owned=owned,
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
        return "lost", f"no sign of life for {silent_ms} ms"
    if report is not None and seen.read.now_ms - report.at_ms > session_ms:
        return "unreachable", "renews its locks, but no heartbeat arrives"
    if silent_ms > SUSPECT_BEATS * seen.settings.heartbeat_ms:
        return "suspect", f"no sign of life for {silent_ms} ms"
    return None


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
        words = f"idle: {seen.settings.partitions} partitions, {_able(seen)} members"
        return "alive", words if _is_idle(seen, member) else ""
    if row.away_since_ms or (not row.able_at_ms and not is_foreign):
        return "joining", why or "its consumer is starting"
    return "unable", why or f"its consumer is {state}"


def _is_idle(seen: Seen, member: str) -> bool:
    """An able member has nothing, and there are fewer partitions than such members."""
    row = seen.read.target.get(member)
    return row is not None and not row.active and _able(seen) > seen.settings.partitions


def _able(seen: Seen) -> int:
    return sum(member.able for member in seen.read.members.values())


def _numbers(
    seen: Seen, partitions: Sequence[LivePartition], members: Sequence[LiveMember]
) -> LiveNumbers:
    read = seen.read
    states = [row.state for row in partitions]
    lags = [row.lag_records for row in partitions]
    able = [m for m in members if read.members[m.id].able and m.state not in ("lost", "stopped")]
    loads = [m.owned for m in able if not m.leaving]
    stuck = {row.owner for row in partitions if _is_stuck(row) or row.state == "halted"}
    rates = [m.rows_per_second for m in able if m.rows_per_second is not None]
    return LiveNumbers(
        partitions=len(partitions),
        owned=sum(row.owner is not None for row in partitions),
        unowned=states.count("unowned") + states.count("unserved"),
        conflicts=states.count("conflict"),
        unknown=states.count("unknown"),
        members=len(members),
        able=len(able),
        idle=sum(m.idle for m in members),
        lag_records=None if None in lags else sum(lag or 0 for lag in lags),
        events_per_second=sum(rates) if rates else None,
        applied_total=sum(applied.total for applied in read.applied.values()),
        balance_degree=metrics.balance_degree(loads),
        max_minus_min=metrics.max_minus_min(loads),
        score=metrics.score(loads),
        leaving=sum(bool(m.leaving) for m in members),
        learning=sum(row.learner is not None for row in partitions),
        stalled=sum(m.state == "stalled" or m.id in stuck for m in members),
        paused=len(seen.paused),
        pausing=sum(one is PauseState.PAUSING for one in seen.paused.values()),
        lag_paused=sum(row.lag_records or 0 for row in partitions if row.pause),
    )


def _is_stuck(row: LivePartition) -> bool:
    return row.state == "owned" and (row.waiting_ms or 0) > STUCK_MS


def _rate(seen: Seen, member: str, health: ConsumerHealth) -> float:
    """Of its last batch, as it says itself; 0 when that is too long ago to be what happens now."""
    idle = seen.read.now_ms - seen.committed.get(member, 0) > RATE_HOLDS_MS
    return 0.0 if idle else health.rows_per_second


def _last_commits(read: GroupRead) -> dict[str, int]:
    last: dict[str, int] = {}
    for partition, lock in read.locks.items():
        if applied := read.applied.get(partition):
            last[lock.member_id] = max(last.get(lock.member_id, 0), applied.at_ms)
    return last
