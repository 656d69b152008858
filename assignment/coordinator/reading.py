"""What one reading of a group says: who is gone, who is unable, who holds what.

Pure: a `GroupRead` in, values out; the same view gives the same answer (coordination.md section 3).
"""

from collections.abc import Mapping
from dataclasses import replace

from assignment.coordinator.incarnation import is_believed
from assignment.errors import GroupMissing
from assignment.scripts.group_read import (
    TICKER_AWAY_MS,
    Gap,
    GroupRead,
    MemberRow,
    Meta,
    Ticker,
)
from assignment.types import (
    INCARNATION_STEP,
    Coordination,
    Drain,
    GroupSettings,
    Member,
    Partition,
    UnableReason,
)

_UNREPORTED = 0  # fence of a claim that only the stored target makes: any real fence is higher


def settings_of(view: GroupRead) -> GroupSettings:
    """GroupMissing when this Redis does not have the group, or not any more."""
    if view.meta.settings is None:
        raise GroupMissing("the group is not configured in this Redis")
    return view.meta.settings


def ticker_away(now_ms: int, seen_ms: int | None, before: Gap) -> Gap:
    """The last time when nobody ticked. `seen_ms`: the last sign of life; None: none is known. From
    a clock that was set back on nothing is known of before, as after a time away.
    """
    if seen_ms is None:
        return Gap(0, now_ms)
    if now_ms < seen_ms:
        return Gap(now_ms, now_ms)
    return Gap(seen_ms, now_ms) if now_ms - seen_ms > TICKER_AWAY_MS else before


def ticked(meta: Meta, ticker: Ticker) -> Meta:
    """As if the group had been looked at when a dashboard ticked last: it rested meanwhile. Unless
    nobody ticked for a while, which the next look notes. One whose agents coordinate never rests.
    """
    unnoted = ticker.away.until_ms > meta.tick_ms
    if unnoted or ticker.seen_ms <= meta.tick_ms or meta.coordination is Coordination.CLIENT:
        return meta
    return replace(meta, tick_ms=ticker.seen_ms)


def known_ms(view: GroupRead, since_ms: int) -> int:
    """For how long something has been so, not counting the time in which nobody could know."""
    unknown = sum(max(0, gap.until_ms - max(gap.from_ms, since_ms)) for gap in view.meta.away)
    return view.now_ms - since_ms - unknown


def came_back_lately(view: GroupRead) -> bool:
    """Whether Redis or the ticks were away less than one session ago, also when the tick that will
    note it is still to come.
    """
    until_ms = view.meta.away[0].until_ms if view.meta.away else 0
    unnoted = view.now_ms - view.meta.tick_ms > TICKER_AWAY_MS
    return unnoted or view.now_ms < until_ms + settings_of(view).session_timeout_ms


def waiting_for(view: GroupRead) -> tuple[str, ...]:
    """Members whose word is awaited: no rebalance until it came, or the time is up.

    A complete report, from when it was asked for first, however often the member joined anew. Or
    that it renewed, which nobody could while Redis was away. That of the group since the rebalance
    became due.
    """
    timeout = settings_of(view).session_timeout_ms
    due_since_ms = view.meta.due_since_ms
    if due_since_ms and known_ms(view, due_since_ms) >= timeout:
        return ()
    awaited = {m for m, asked_at_ms in view.asked.items() if known_ms(view, asked_at_ms) < timeout}
    if came_back_lately(view):
        reports = view.reports.items()
        awaited |= {m for m, report in reports if report.unable == UnableReason.NO_RENEW}
    return tuple(
        member
        for member in sorted(awaited)
        if member in view.members and known_ms(view, view.beats.get(member, 0)) <= timeout
    )


# --- ability --------------------------------------------------------------------------------------


def unable_members(view: GroupRead) -> dict[str, str]:
    """Members that count as no owner and get nothing -> why. They stay members."""
    reasons = {m: "consumer not ready" for m, row in view.members.items() if not row.able}
    for member, partition in without_lock(view).items():
        reasons.setdefault(member, f"{partition} assigned, its lock not taken")
    return dict(sorted(reasons.items()))


def is_held(view: GroupRead) -> bool:
    """Every partition that the target gives away is locked by that member, no other is."""
    wanted = {p: member for member, row in view.target.items() for p in row.active}
    held: dict[Partition, str] = {p: lock.member_id for p, lock in view.locks.items()}
    return wanted == held


def is_expected(view: GroupRead, row: MemberRow) -> bool:
    """Whether an instance that stopped or died still counts as what it was: its next process is to
    be able within that time (KIP-345). Not one that is to leave.
    """
    if not row.away_since_ms or is_leaving(row):
        return False
    return known_ms(view, row.away_since_ms) <= settings_of(view).instance_timeout_ms


def without_lock(view: GroupRead) -> dict[str, Partition]:
    """Able members with an assigned partition that nobody has locked for longer than lease + grace.

    Its lowest such partition for each. Empty while no lock could be taken: Redis came back, or has
    no incarnation; the time counts from when that was set. What no tick saw is not counted: a clock
    set forward ends all locks long ago. A tick that finds one asks for a rebalance
    (`request_rebalance`).
    """
    settings, meta = settings_of(view), view.meta
    lockable = view.grants_are_possible and not came_back_lately(view)
    if not lockable or not meta.target_at_ms:
        return {}
    patience = settings.lease_ms + settings.grace_ms
    found: dict[str, Partition] = {}
    for member, row in sorted(view.target.items()):
        able = member in view.members and view.members[member].able
        if not able or is_expected(view, view.members[member]):
            continue
        able_at_ms = view.members[member].able_at_ms
        since = max(meta.target_at_ms, meta.incarnation_at_ms, able_at_ms)
        free = row.active - view.locks.keys() - view.members[member].unserved
        for partition in sorted(free):
            grant = view.grants.get(partition)
            free_since = max(since, grant.until_ms if grant else 0)
            if known_ms(view, free_since) > patience:
                found[member] = partition
                break
    return found


def is_leaving(row: MemberRow) -> bool:
    """Whether it leaves: by its own word, or told to in a scale-down."""
    return row.leaving or row.drain is not Drain.NONE


def is_forced(row: MemberRow) -> bool:
    """Whether it goes at once (learners.md S4, S5)."""
    return row.leaving or row.drain is Drain.FORCED


# --- what is held ---------------------------------------------------------------------------------


def able_members(view: GroupRead, unable: Mapping[str, str]) -> tuple[Member, ...]:
    """Those that may own, with what they hold by report, lock or stored target, whichever is known.

    A member that leaves gets nothing, so it is not among them.
    """
    held = claims(view, unable)
    return tuple(
        Member(
            member_id=member,
            joined_at_ms=max(row.joined_at_ms, row.able_at_ms),
            instance_id=row.instance or None,
            zone=row.zone,
            capacity=row.capacity,
            owned=held.get(member, {}),
            unserved=row.unserved,
        )
        for member, row in sorted(view.members.items())
        if member not in unable and not is_leaving(row)
    )


def is_possible(view: GroupRead, member: str, partition: Partition, fence: int) -> bool:
    """Whether it may hold that. A report may be old, but never ahead of the grants, and never name
    another member's fence.

    Of an incarnation before this one, or under a Redis that runs anew and has none of its own yet,
    the grants may be what was lost; of a higher one, as far as claims are believed.
    """
    grant, incarnation = view.grants.get(partition), view.meta.incarnation
    if grant and fence <= grant.fence:
        return fence < grant.fence or grant.member_id == member
    if not view.grants_are_possible:
        return True
    claimed = fence // INCARNATION_STEP
    return claimed != incarnation and is_believed(claimed, incarnation)


def claims(
    view: GroupRead, unable: Mapping[str, str], *, with_unserved: bool = False
) -> dict[str, dict[Partition, int]]:
    """Able member -> partition -> fence, leaving members included.

    What members report, as far as it is possible, and what their live locks say (the higher fence
    wins), and what the stored target gives them and no able member has by either. What a member
    cannot serve is none of its claims: it gives it up, and the lock is waited for by whom the
    target gave it.
    """
    held: dict[str, dict[Partition, int]] = {
        member: {} for member in sorted(view.members) if member not in unable
    }
    for member, report in view.reports.items():
        if member in held:
            held[member] = {
                p: own.fence
                for p, own in report.owned.items()
                if is_possible(view, member, p, own.fence)
            }
    for partition, lock in view.locks.items():
        if lock.member_id in held:
            own = held[lock.member_id]
            own[partition] = max(lock.fence, own.get(partition, _UNREPORTED))
    if not with_unserved:
        for member, own in held.items():
            for partition in own.keys() & view.members[member].unserved:
                del own[partition]
    known = {partition for own in held.values() for partition in own}
    for member, row in view.target.items():
        if member in held:
            given = row.active - known - view.members[member].unserved
            held[member].update(dict.fromkeys(given, _UNREPORTED))
    return held


def highest(claimed: Mapping[str, Mapping[Partition, int]]) -> dict[Partition, str]:
    """Partition -> the member that claims it with the highest fence."""
    best: dict[Partition, tuple[int, str]] = {}
    for member, own in claimed.items():
        for partition, fence in own.items():
            best[partition] = max(best.get(partition, (_UNREPORTED, "")), (fence, member))
    return {partition: member for partition, (_, member) in best.items()}


def owners_before(view: GroupRead) -> dict[Partition, str]:
    """Existing partition -> its owner so far, able or not: the highest fence claimed.

    Where no member claims it, the last one granted it, if that one is gone from the group since.
    """
    owners = {p: g.member_id for p, g in view.grants.items() if g.member_id not in view.members}
    owners |= highest(claims(view, {}, with_unserved=True))
    return {p: owners[p] for p in settings_of(view).all_partitions() if p in owners}
