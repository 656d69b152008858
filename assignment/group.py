"""The coordinator's decisions on a group: who is gone, who can own, and the next target.

Pure: a `GroupRead` in, values out; the same view gives the same answer, in whatever order things
were reported (coordination.md section 3, learners.md L5, L8, L9). Remembers nothing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assignment import metrics, strategies
from assignment.errors import GroupMissing
from assignment.scripts import GroupRead
from assignment.strategies import StrategyInput
from assignment.types import INCARNATION_STEP, GroupSettings, Member, Partition, TargetRow

TICK_AWAY_MS = 3_000  # a tick older than this: nobody watched, so no session ends yet
_UNREPORTED = 0  # fence of a claim that only the stored target makes: any real fence is higher


def settings_of(view: GroupRead) -> GroupSettings:
    """GroupMissing when this Redis does not have the group, or not any more."""
    if view.meta.settings is None:
        raise GroupMissing("the group is not configured in this Redis")
    return view.meta.settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Take the member out, unless it gave a sign of life after `beat`."""

    member: str
    beat: int
    reason: str


def expired_members(view: GroupRead) -> tuple[Evict, ...]:
    """Members without heartbeat and renew for session_timeout_ms. To be asked of a tick's view.

    None while the ticks or Redis were away less than one session ago.
    """
    timeout = settings_of(view).session_timeout_ms
    watched = view.now_ms - view.meta.tick_ms <= TICK_AWAY_MS
    if not watched or view.now_ms < view.meta.quiet_until_ms:
        return ()
    return tuple(
        Evict(member=member, beat=beat, reason=f"no sign of life for {view.now_ms - beat} ms")
        for member, beat in sorted(view.beats.items())
        if member in view.members and view.now_ms - beat > timeout
    )


def needs_incarnation(view: GroupRead, database_incarnation: int) -> int | None:
    """The incarnation to set, when Redis may have lost writes or has none yet; else None.

    1 + the highest of the database, `meta`, and of the fences in grants, locks and reports.
    """
    if view.grants_are_possible:
        return None
    fences = [grant.fence for grant in view.grants.values()]
    fences += [lock.fence for lock in view.locks.values()]
    fences += [held.fence for report in view.reports.values() for held in report.owned.values()]
    seen = max(fences, default=0) // INCARNATION_STEP
    return 1 + max(database_incarnation, view.meta.incarnation, seen)


def waiting_for(view: GroupRead) -> tuple[str, ...]:
    """Members whose complete report is awaited: no rebalance until it came, or their time is up."""
    timeout = settings_of(view).session_timeout_ms
    return tuple(
        member
        for member, asked_at_ms in sorted(view.asked.items())
        if member in view.members
        and view.now_ms - asked_at_ms < timeout
        and view.now_ms - view.beats.get(member, 0) <= timeout
    )


# --- ability --------------------------------------------------------------------------------------


def unable(view: GroupRead) -> dict[str, str]:
    """Members that count as no owner and get nothing -> why. They stay members."""
    reasons = {m: "consumer not ready" for m, row in view.members.items() if not row.able}
    for member, partition in without_lock(view).items():
        reasons.setdefault(member, f"{partition} assigned, its lock not taken")
    return dict(sorted(reasons.items()))


def without_lock(view: GroupRead) -> dict[str, Partition]:
    """Able members with an assigned partition that nobody has locked for longer than lease + grace.

    Its lowest such partition for each. Empty while no lock could be taken: Redis came back, or has
    no incarnation. A tick that finds one asks for a rebalance (`touch`).
    """
    settings, meta = settings_of(view), view.meta
    lockable = view.grants_are_possible and view.now_ms >= meta.quiet_until_ms
    if not lockable or not meta.target_at_ms:
        return {}
    patience = settings.lease_ms + settings.grace_ms
    found: dict[str, Partition] = {}
    for member, row in sorted(view.target.items()):
        if member not in view.members or not view.members[member].able:
            continue
        since = max(meta.target_at_ms, view.members[member].able_at_ms)
        for partition in sorted(p for p in row.active if p not in view.locks):
            grant = view.grants.get(partition)
            free_since = max(since, grant.until_ms if grant else 0)
            if view.now_ms - free_since > patience:
                found[member] = partition
                break
    return found


# --- the next target ------------------------------------------------------------------------------


class Cause(NamedTuple):
    """Why a target differs from the one before, as far as the view shows; `subject` may be ""."""

    kind: str  # joined, left, able, not able, leaving, partitions, asked
    subject: str


class Move(NamedTuple):
    """`giver` is "" when nobody owned it, `taker` is "" when nobody gets it."""

    partition: Partition
    giver: str
    taker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The record of one rebalance. `moves` has every partition whose owner changes."""

    strategy: str
    causes: tuple[Cause, ...]
    moves: tuple[Move, ...]
    movement: metrics.Movement
    loads: Mapping[str, int]  # of the members that may own
    balance_degree_before: float | None
    balance_degree: float | None
    max_minus_min: int | None
    max_over_mean: float | None
    score: float | None
    unable: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What set_target should store: epochs that were read, and a row for every member."""

    coordinator_epoch: int
    mode_epoch: int
    group_epoch: int
    rows: Mapping[str, TargetRow]
    change: Change


@dataclass(frozen=True, slots=True)
class Nothing:
    """No target is due."""

    reason: str


def next_target(view: GroupRead) -> Target | Nothing:
    """The target for the view's group_epoch. To be asked of a plan's view.

    Without any able member the rows are empty and every partition is unowned: a result, no error.
    """
    meta = view.meta
    if meta.group_epoch <= meta.target_epoch:
        return Nothing(f"nothing changed since epoch {meta.target_epoch}")
    if awaited := waiting_for(view):
        return Nothing(f"waiting for complete reports of {', '.join(awaited)}")
    return target_of(view, settings_of(view).strategy)


def target_of(view: GroupRead, strategy: str) -> Target:
    """The target that a strategy would give now, due or not: also the preview of a rebalance."""
    settings, barred = settings_of(view), unable(view)
    members = able_members(view, barred)
    topics = {settings.stream: settings.partitions}
    assigned = strategies.get(strategy)(StrategyInput(members=members, topics=topics))
    rows = {
        member: TargetRow(
            target_epoch=view.meta.group_epoch, active=frozenset(assigned.get(member, ()))
        )
        for member in sorted(view.members)
    }
    return Target(
        coordinator_epoch=view.meta.coordinator_epoch,
        mode_epoch=view.meta.mode_epoch,
        group_epoch=view.meta.group_epoch,
        rows=rows,
        change=_change(view, strategy, rows, barred),
    )


def able_members(view: GroupRead, barred: Mapping[str, str]) -> tuple[Member, ...]:
    """Those that may own, with what they hold by report, lock or stored target, whichever is known.

    A leaving member gets nothing, so it is not among them.
    """
    held = claims(view, barred)
    return tuple(
        Member(
            member_id=member,
            joined_at_ms=max(row.joined_at_ms, row.able_at_ms),
            instance_id=row.instance or None,
            zone=row.zone,
            capacity=row.capacity,
            owned=held.get(member, {}),
        )
        for member, row in sorted(view.members.items())
        if member not in barred and not row.leaving
    )


def claims(view: GroupRead, barred: Mapping[str, str]) -> dict[str, dict[Partition, int]]:
    """Able member -> partition -> fence, leaving members included.

    What members report and what their live locks say (the higher fence wins), and what the stored
    target gives them and no able member has by either.
    """
    held: dict[str, dict[Partition, int]] = {
        member: {} for member in sorted(view.members) if member not in barred
    }
    for member, report in view.reports.items():
        if member in held:
            held[member] = {p: own.fence for p, own in report.owned.items()}
    for partition, lock in view.locks.items():
        if lock.member_id in held:
            own = held[lock.member_id]
            own[partition] = max(lock.fence, own.get(partition, _UNREPORTED))
    known = {partition for own in held.values() for partition in own}
    for member, row in view.target.items():
        if member in held:
            held[member].update(dict.fromkeys(row.active - known, _UNREPORTED))
    return held


# --- the record -----------------------------------------------------------------------------------


def owners_before(view: GroupRead) -> dict[Partition, str]:
    """Existing partition -> its owner so far, able or not: the highest fence claimed.

    Where no member claims it, the last one granted it, if that one is gone from the group since.
    """
    best: dict[Partition, tuple[int, str]] = {}
    for member, owned in claims(view, {}).items():
        for partition, fence in owned.items():
            if partition not in best or fence > best[partition][0]:
                best[partition] = (fence, member)
    owners = {p: g.member_id for p, g in view.grants.items() if g.member_id not in view.members}
    owners.update((p, member) for p, (_, member) in best.items())
    return {p: owners[p] for p in settings_of(view).all_partitions() if p in owners}


def _change(
    view: GroupRead, strategy: str, rows: Mapping[str, TargetRow], barred: Mapping[str, str]
) -> Change:
    before = owners_before(view)
    after = {p: member for member, row in rows.items() for p in row.active}
    may_own = [m for m, row in view.members.items() if m not in barred and not row.leaving]
    loads = {m: len(rows[m].active) for m in sorted(may_own)}
    loads_before = Counter(before.values())
    return Change(
        strategy=strategy,
        causes=_causes(view, barred),
        moves=tuple(
            Move(p, before.get(p, ""), after.get(p, ""))
            for p in settings_of(view).all_partitions()
            if before.get(p) != after.get(p)
        ),
        movement=metrics.movement(before, after, may_own, settings_of(view).partitions),
        loads=loads,
        balance_degree_before=metrics.balance_degree([loads_before[m] for m in loads]),
        balance_degree=metrics.balance_degree(loads.values()),
        max_minus_min=metrics.max_minus_min(loads.values()),
        max_over_mean=metrics.max_over_mean(loads.values()),
        score=metrics.score(loads.values()),
        unable=dict(barred),
    )


def _causes(view: GroupRead, barred: Mapping[str, str]) -> tuple[Cause, ...]:
    """Guessed from what differs from the stored target; a person's asking leaves no other trace."""
    found: list[Cause] = []
    for member, row in sorted(view.members.items()):
        given = view.target.get(member)
        if given is None:
            found.append(Cause("joined", member))
        elif member in barred and given.active:
            found.append(Cause("not able", member))
        elif row.leaving and given.active:
            found.append(Cause("leaving", member))
        elif member not in barred and row.able_at_ms > view.meta.target_at_ms > 0:
            found.append(Cause("able", member))
    found += [Cause("left", member) for member in _gone(view)]
    if changed := _partitions_changed(view):
        found.append(Cause("partitions", changed))
    return tuple(found) or (Cause("asked", ""),)


def _gone(view: GroupRead) -> list[str]:
    """Last holders of partitions that no row covers any more, and that are no members."""
    covered = {p for row in view.target.values() for p in row.active}
    holders = {g.member_id for p, g in view.grants.items() if p not in covered}
    return sorted(holders - view.members.keys())


def _partitions_changed(view: GroupRead) -> str:
    given = {p for row in view.target.values() for p in row.active}
    existing = settings_of(view).all_partitions()
    added = sum(p not in given and p not in view.grants for p in existing) if given else 0
    removed = len(given.difference(existing))
    parts = [f"{added} added"] if added else []
    return ", ".join(parts + ([f"{removed} removed"] if removed else []))
