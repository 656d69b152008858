"""When the incarnation is to be raised, how far, and above which numbers (coordination.md 8).

What says that a Redis may have lost writes: it runs under another identity than the incarnation
was set under (run_id and replication id, see run_id in lua/_common.lua), or it counts below what
the database or a member remembers. The second finds what the first cannot: a server that was put
back with its identity, as a snapshot of a machine is.

What a member claims is believed within CLAIMED_AHEAD_MAX of what database and Redis know; else it
is set aside and counts for nothing, above all not again and again. Members that really saw more,
because both came back from a backup, wait until a person says so (`repair --incarnation`): they
follow no lower incarnation, and wherever fences are compared what they wrote stays the newer, so
nobody else's writes count beside theirs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from assignment.errors import Damaged
from assignment.scripts.group_read import GroupRead
from assignment.scripts.reports import Report, Reports
from assignment.scripts.values import INCARNATION_MAX
from assignment.types import INCARNATION_STEP

CLAIMED_AHEAD_MAX = 1_024  # incarnations, above the database: as far as one step may raise it
CLAIMED_MAX = INCARNATION_MAX // 2  # the rest is left for a Redis that really forgets
NUMBERS_AHEAD_MAX = 1_000_000  # epochs: what is further ahead was never counted here


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the database remembers of a group: the highest of each."""

    incarnation: int = 0
    target_epoch: int = 0
    event_seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """The incarnation to set, and the highest known of the numbers that are lifted with it.

    `has_lost`: Redis had the group and may lack some of it.
    """

    incarnation: int
    known: Mapping[str, int]
    has_lost: bool = False


def is_step(incarnation: int, known: int) -> bool:
    """Whether Redis can have it where `known` is remembered: a claim and one above, of old too."""
    return incarnation <= known + CLAIMED_AHEAD_MAX + 1


def is_believed(claimed: int, known: int) -> bool:
    """Whether a member or a file may have seen it; `known`: the highest of database and Redis."""
    return claimed <= believed_most(known)


def believed_most(known: int) -> int:
    return max(known, min(known + CLAIMED_AHEAD_MAX, CLAIMED_MAX) - 1)


def bad_claims(view: GroupRead, incarnation: int) -> dict[str, str]:
    """Members that claim an incarnation, by word or by a fence, that nobody can have seen -> why.
    `incarnation`: the database's.
    """
    known = max(incarnation, view.meta.incarnation)
    most, claims = believed_most(known), _claims(view)
    return {
        member: f"it claims incarnation {claims[member]}, {known} is the highest that is known"
        for member in sorted(member for member, claimed in claims.items() if claimed > most)
    }


def without_bad_claims(view: GroupRead, incarnation: int) -> GroupRead:
    """What those members report is left out, and what their rows claim."""
    bad = bad_claims(view, incarnation)
    if not bad:
        return view
    reports = view.reports
    return replace(
        view,
        members={m: replace(r, incarnation=0) if m in bad else r for m, r in view.members.items()},
        reports=(
            reports.without(bad)
            if isinstance(reports, Reports)
            else {m: report for m, report in reports.items() if m not in bad}
        ),
        bad_claims=bad,
    )


def needs_incarnation(view: GroupRead, database: Known) -> Raise | None:
    """None while the stored one stands: 1 + the highest of database, Redis and members. Raises
    Damaged when there is none above it.
    """
    meta = view.meta
    claimed = _believed(view, database.incarnation)
    stands = view.grants_are_possible and meta.incarnation >= max(database.incarnation, claimed)
    has_lost = not view.grants_are_possible or _has_lost(view, database)
    if stands and not has_lost:
        return None
    fence = max(int(rows.fence.max(initial=0)) for rows in (view.grants, view.locks))
    granted = fence // INCARNATION_STEP
    highest = max(database.incarnation, meta.incarnation, claimed, granted)
    if highest >= INCARNATION_MAX:
        raise Damaged(f"no incarnation is left above {highest}: repair brings it down")
    return Raise(
        incarnation=1 + highest,
        known=_known(view, database),
        has_lost=has_lost and meta.incarnation > 0,
    )


def _believed(view: GroupRead, incarnation: int) -> int:
    """The highest incarnation that members say they saw, of those that can be."""
    known = max(incarnation, view.meta.incarnation)
    most = believed_most(known)
    return max((claim for claim in _claims(view).values() if claim <= most), default=0)


def _claims(view: GroupRead) -> dict[str, int]:
    """By member: by word or by a fence, as it joined or as it reports."""
    found = {member: row.incarnation for member, row in view.members.items()}
    for member, report in view.reports.items():
        claimed = max(report.incarnation, report.owned.highest // INCARNATION_STEP)
        if claimed > found.get(member, -1):
            found[member] = claimed
    return found


def _has_lost(view: GroupRead, database: Known) -> bool:
    """Whether it counts below what is remembered of this very incarnation."""
    meta = view.meta
    if database.event_seq > meta.event_seq or database.target_epoch > meta.group_epoch:
        return True
    return any(
        _plausible(number, stored) > stored
        for report in view.reports.values()
        if report.incarnation == meta.incarnation
        for number, stored in _compared(view, report)
    )


def _compared(view: GroupRead, report: Report) -> tuple[tuple[int, int], ...]:
    """(what a member says, what Redis has) of each number that both count."""
    meta = view.meta
    is_current = report.target_incarnation == meta.incarnation
    return (
        (report.mode_epoch, meta.mode_epoch),
        (report.settings_epoch, meta.settings_epoch),
        (report.target_epoch if is_current else 0, meta.group_epoch),
    )


def _known(view: GroupRead, database: Known) -> dict[str, int]:
    meta, reports = view.meta, view.reports.values()
    targets = [_plausible(report.target_epoch, meta.group_epoch) for report in reports]
    modes = [_plausible(report.mode_epoch, meta.mode_epoch) for report in reports]
    settings = [_plausible(report.settings_epoch, meta.settings_epoch) for report in reports]
    # Events that came after the last stored one are lost: the number left out shows the gap.
    lost_events = database.event_seq > meta.event_seq
    return {
        "group_epoch": max(database.target_epoch, *targets, 0),
        "mode_epoch": max(modes, default=0),
        "settings_epoch": max(settings, default=0),
        "event_seq": database.event_seq + lost_events,
    }


def _plausible(claimed: int, stored: int) -> int:
    return claimed if claimed <= stored + NUMBERS_AHEAD_MAX else 0
