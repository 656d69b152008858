"""What one reading of a group says: who is gone, who is unable, who holds what.

Pure: a `GroupRead` in, values out; the same view gives the same answer (coordination.md section 3).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from assignment.columns import (
    NOBODY,
    Fences,
    Flags,
    Index,
    Numbers,
    Owners,
    Places,
    renumbered,
)
from assignment.coordinator.incarnation import believed_most
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

HERD, HERD_MS = 20, 1_000  # so many join in that time: some hundred are started together
HERD_SESSIONS = 2  # for so many sessions at most: then members that come and go for ever are served
_UNREPORTED = 0  # fence of a claim that only the stored target makes: any real fence is higher
_NEVER_GRANTED = -1  # below any fence
_NONE = np.zeros(0, np.int64)


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


def why_waiting(view: GroupRead) -> str:
    """ "" when nobody's word is awaited, and no herd."""
    if joined := herd_of(view):
        return f"{joined} members joined within a second: more are to come"
    awaited = waiting_for(view)
    return f"waiting for reports of {', '.join(awaited)}" if awaited else ""


def herd_of(view: GroupRead) -> int:
    """How many members joined just now, where they are so many that more are to come; 0: there is
    no herd, or it was waited for long enough since the rebalance became due. A target for those of
    a herd who are first gives them what each of the others takes from them again.
    """
    due_since_ms, session_ms = view.meta.due_since_ms, settings_of(view).session_timeout_ms
    if due_since_ms and known_ms(view, due_since_ms) >= HERD_SESSIONS * session_ms:
        return 0
    joined = sum(0 <= view.now_ms - row.joined_at_ms < HERD_MS for row in view.members.values())
    return joined if joined >= HERD else 0


# --- ability --------------------------------------------------------------------------------------


def unable_members(view: GroupRead) -> dict[str, str]:
    """Members that count as no owner and get nothing -> why. They stay members."""
    reasons = {m: "consumer not ready" for m, row in view.members.items() if not row.able}
    for member, partition in without_lock(view).items():
        reasons.setdefault(member, f"{partition} assigned, its lock not taken")
    return dict(sorted(reasons.items()))


def is_held(view: GroupRead) -> bool:
    """Every partition that the target gives away is locked by that member, no other is."""
    index, locks = view.index, view.locks
    holder, at = renumbered(locks.names, view.given)[locks.member], index.at(locks.places)
    wanted = [(given, number) for number, given in enumerate(view.given.values())]
    target = Said.of((given, number, given) for given, number in wanted)
    owner = index.spread(target.at, target.who, NOBODY)
    is_same = index.spread(at, holder, NOBODY) == owner
    return bool(is_same.all() and (holder != NOBODY).all())


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
    index, grants, given = view.index, view.grants, view.given
    locked = index.mask(index.at(view.locks.places))
    until_ms = index.spread(index.at(grants.places), grants.until_ms, 0)
    found: dict[str, Partition] = {}
    for member, at in sorted(given.items()):
        able = member in view.members and view.members[member].able
        if not able or is_expected(view, view.members[member]):
            continue
        able_at_ms = view.members[member].able_at_ms
        since = max(meta.target_at_ms, meta.incarnation_at_ms, able_at_ms)
        free = at[~locked[at]]
        ends_ms = dict(zip(index.places(free), until_ms[free].tolist(), strict=True))
        for partition in sorted(ends_ms.keys() - view.members[member].unserved):
            if known_ms(view, max(since, ends_ms[partition])) > patience:
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
            owned=held[member],
            unserved=row.unserved,
        )
        for member, row in sorted(view.members.items())
        if member not in unable and not is_leaving(row)
    )


class Said(NamedTuple):
    """Of each row: the partition, by the view's index; who says to hold it, by index; its fence."""

    at: Numbers
    who: Numbers
    fence: Numbers

    @classmethod
    def of(cls, parts: Iterable[tuple[Numbers, int, Numbers]]) -> Self:
        at, who, fence = zip((_NONE, 0, _NONE), *parts, strict=True)
        sizes = [len(one) for one in at]
        return cls(np.concatenate(at), np.repeat(who, sizes), np.concatenate(fence))

    def where(self, chosen: Flags) -> Self:
        return type(self)(*(column[chosen] for column in self))

    def with_more(self, at: Numbers, who: Numbers, fence: Numbers) -> Self:
        return type(self)(*map(np.concatenate, zip(self, (at, who, fence), strict=True)))


def reported(view: GroupRead, members: Sequence[str]) -> Said:
    """What these members say to hold."""
    reports = ((m, view.reports[name]) for m, name in enumerate(members) if name in view.reports)
    return Said.of((view.index.at(r.owned.places), m, r.owned.fence) for m, r in reports)


def possible(view: GroupRead, members: Sequence[str], said: Said) -> Flags:
    """Which rows may be true. A report may be old, but never ahead of the grants, and never name
    another member's fence.

    Of an incarnation before this one, or under a Redis that runs anew and has none of its own yet,
    the grants may be what was lost; of a higher one, as far as claims are believed.
    """
    grants, incarnation = view.grants, view.meta.incarnation
    at = view.index.at(grants.places)
    last = view.index.spread(at, grants.fence, _NEVER_GRANTED)[said.at]
    member = renumbered(grants.names, members)[grants.member]
    is_own = view.index.spread(at, member, NOBODY)[said.at] == said.who
    is_known: Flags = (said.fence < last) | ((said.fence == last) & is_own)
    is_ahead: Flags = said.fence > last
    if view.grants_are_possible:
        claimed = said.fence // INCARNATION_STEP
        is_ahead &= (claimed != incarnation) & (claimed <= believed_most(incarnation))
    return is_known | is_ahead


class Claims(Mapping[str, Fences]):
    """Able member -> partition -> fence. The rows are sorted by member, which are ascending."""

    def __init__(self, index: Index, members: Sequence[str], said: Said) -> None:
        order = np.argsort(said.who, kind="stable")
        self.index, self.members, self.said = index, members, Said(*(c[order] for c in said))
        bounds = np.searchsorted(self.said.who, np.arange(len(members) + 1))
        self._rows = dict(zip(members, pairwise(bounds.tolist()), strict=True))

    def __getitem__(self, member: str) -> Fences:
        rows = slice(*self._rows[member])
        return Fences(self.index.places(self.said.at[rows]), self.said.fence[rows])

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def highest(self) -> Numbers:
        """[all partitions] the member that claims it with the highest fence, of equals the last
        one by name; NOBODY without any.
        """
        at, who, fence = self.said
        best = np.full(len(self.index), _UNREPORTED, np.int64)
        np.maximum.at(best, at, fence)
        wins = fence == best[at]
        found = np.full(len(self.index), NOBODY, np.int64)
        np.maximum.at(found, at[wins], who[wins])
        return found


def claims(view: GroupRead, unable: Mapping[str, str], *, with_unserved: bool = False) -> Claims:
    """Of able members, leaving ones included.

    What members report, as far as it is possible, and what their live locks say (the higher fence
    wins), and what the stored target gives them and no able member has by either. What a member
    cannot serve is none of its claims: it gives it up, and the lock is waited for by whom the
    target gave it.
    """
    index, members = view.index, tuple(m for m in sorted(view.members) if m not in unable)
    said, locked = reported(view, members), _locked(view, members)
    target = Said.of((at, m, np.zeros_like(at)) for at, m in _targets(view, members))
    unserved = _unserved(view, members)
    said = _with_locks(index, said.where(possible(view, members, said)), locked)
    if unserved and not with_unserved:
        said = said.where(_served(said, unserved))
    target = target.where(~index.mask(said.at)[target.at] & _served(target, unserved))
    return Claims(index, members, said.with_more(*target))


def _locked(view: GroupRead, members: Sequence[str]) -> Said:
    """By these members."""
    locks = view.locks
    holder = renumbered(locks.names, members)[locks.member]
    return Said(view.index.at(locks.places), holder, locks.fence).where(holder != NOBODY)


def _targets(view: GroupRead, members: Sequence[str]) -> list[tuple[Numbers, int]]:
    return [(view.given[m], number) for number, m in enumerate(members) if m in view.given]


def _unserved(view: GroupRead, members: Sequence[str]) -> dict[int, Numbers]:
    found = {number: view.members[m].unserved for number, m in enumerate(members)}
    return {m: view.index.at(Places.of(parts)) for m, parts in found.items() if parts}


def _served(said: Said, unserved: Mapping[int, Numbers]) -> Flags:
    """Which rows are of what their member can serve."""
    found = np.ones(len(said.at), np.bool_)
    for member, at in unserved.items():
        found &= (said.who != member) | ~np.isin(said.at, at)
    return found


def _with_locks(index: Index, said: Said, locked: Said) -> Said:
    """Each lock is a claim of its holder, that has been said or not."""
    holder = index.spread(locked.at, locked.who, NOBODY)
    fence = index.spread(locked.at, locked.fence, _UNREPORTED)
    holds = holder[said.at] == said.who
    raised = np.where(holds, np.maximum(said.fence, fence[said.at]), said.fence)
    unsaid = locked.where(~index.mask(said.at[holds])[locked.at])
    return said._replace(fence=raised).with_more(*unsaid)


def owners_before(view: GroupRead) -> Owners:
    """Existing partition -> its owner so far, able or not: the highest fence claimed.

    Where no member claims it, the last one granted it, if that one is gone from the group since.
    The names begin with those of all members, ascending.
    """
    settings, grants, claimed = settings_of(view), view.grants, claims(view, {}, with_unserved=True)
    gone = [name for name in grants.names if name not in view.members]
    number = renumbered(grants.names, gone)[grants.member]
    number = np.where(number == NOBODY, NOBODY, number + len(claimed))
    last = view.index.spread(view.index.at(grants.places), number, NOBODY)
    highest = claimed.highest()
    owner = np.where(highest == NOBODY, last, highest)
    return Owners(settings.stream, (*claimed, *gone), owner[: settings.partitions])
