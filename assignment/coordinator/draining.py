"""Carries out scale-downs: the record says who is to leave, Redis what members were told.

Level-triggered: what is told follows from records alone, so it does not matter which process does
it, how often, or where one was killed (learners.md S4 to S9). A record is changed before Redis is
told. Both compare the records' version, so that an abort always has the last word.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from assignment.coordinator import effects
from assignment.coordinator.facts import (
    Leaver,
    Note,
    Outcome,
    ScaleDown,
    ScaleDowns,
    State,
    StayEnd,
)
from assignment.coordinator.reading import came_back_lately
from assignment.coordinator.scale_down import time_is_up
from assignment.coordinator.stays import Went, how_they_went, is_from_before
from assignment.scripts.dashboard_side import set_drain
from assignment.scripts.group_read import GroupRead
from assignment.types import Drain

RETURN_WITHIN_MS = 86_400_000  # one that was lost while it left and comes back still has to leave
RACES_MAX = 5  # lost to other processes; the next tick decides anew

Ends = Mapping[str, Went]


def advance(view: GroupRead) -> effects.Steps[bool]:
    """Whether anything changed. The view is the older: who was told before has a record by now."""
    since_ms, was_told = view.now_ms - RETURN_WITHIN_MS, view.meta.drain_version > 0
    was_told |= _is_told(view)
    for _ in range(RACES_MAX):
        known = yield from effects.ReadScaleDowns(since_ms, was_told)
        if not _is_due(known, view):
            return False
        ends = how_they_went((yield from effects.ReadHints())) if _gone(known, view) else {}
        went_on = went_on_from(known, view, ends)
        if went_on.known.version != known.version:
            kept = yield from effects.KeepScaleDowns(
                known.version, went_on.changed, went_on.known.version, went_on.notes
            )
            if not kept:
                continue
            for member, left_at_ms in went_on.forced:
                yield from effects.KeepForced(member, left_at_ms)
        told = yield from _tell(went_on.known, view)
        if told:
            yield from effects.WantRebalance()
        return told or bool(went_on.changed)
    return False


def _is_due(known: ScaleDowns, view: GroupRead) -> bool:
    is_due = known.running is not None or any(_back(r, view) for r in known.records)
    return is_due or _is_told(view)


def _is_told(view: GroupRead) -> bool:
    return any(row.drain is not Drain.NONE for row in view.members.values())


def _back(row: ScaleDown, view: GroupRead) -> list[str]:
    """Members that were lost while they left and joined again under their name."""
    return [m for m, e in row.members.items() if e.outcome is Outcome.DIED and _is_here(m, e, view)]


def _is_here(member: str, leaver: Leaver, view: GroupRead) -> bool:
    """By a view from after it was gone; one from before cannot know."""
    return member in view.members and not is_from_before(view, leaver.at_ms or 0)


def _gone(known: ScaleDowns, view: GroupRead) -> list[str]:
    return [m for m in known.running.remaining if m not in view.members] if known.running else []


# --- what Redis is told ---------------------------------------------------------------------------


def _tell(known: ScaleDowns, view: GroupRead) -> effects.Steps[bool]:
    """Whether any member was told something new."""
    changed, wanted, running = False, wanted_drains(known), known.running
    for drain in Drain:
        members = tuple(
            m
            for m, row in sorted(view.members.items())
            if row.drain is not drain and wanted.get(m, Drain.NONE) is drain
        )
        if members:
            told = yield from effects.Run(set_drain(drain, members, known.version))
            changed = changed or bool(told)
    if running and running.told_at_ms is None and wanted.keys() & view.members.keys():
        now_ms = yield from effects.ReadNow()
        after = replace(running, told_at_ms=now_ms)
        # A lost race: the next tick says so.
        yield from effects.KeepScaleDowns(known.version, (after,), known.version + 1, ())
    return changed


def wanted_drains(known: ScaleDowns) -> dict[str, Drain]:
    """Who is to leave: the lost ones of records that ended, and who is left of the running one."""
    wanted = {
        member: Drain.LEAVING
        for row in known.records
        if row.state is State.DONE
        for member, leaver in row.members.items()
        if leaver.outcome is Outcome.DIED
    }
    if running := known.running:
        wanted |= {
            m: Drain.FORCED if running.members[m].forced else Drain.LEAVING
            for m in running.remaining
        }
    return wanted


# --- what became of them --------------------------------------------------------------------------


class WentOn(NamedTuple):
    """`known`: the records as they are when `changed` is kept. `forced`: who went so, and when."""

    known: ScaleDowns
    changed: tuple[ScaleDown, ...] = ()
    notes: tuple[Note, ...] = ()
    forced: tuple[tuple[str, int], ...] = ()


def went_on_from(known: ScaleDowns, view: GroupRead, ends: Ends) -> WentOn:
    """`ends`: how those went who are gone, as far as that is known.

    Redis was told by a later version than there is: the database is an older copy, and counts on
    above it.
    """
    known_version = max(known.version, view.meta.drain_version)
    same = WentOn(replace(known, version=known_version))
    before = known.running or next((r for r in known.records if _back(r, view)), None)
    if before is None:
        return same
    notes: list[Note] = []
    row = before if before.state is State.RUNNING else _reopened(before, view, notes)
    if not is_from_before(view, row.asked_at_ms):
        row = _with_outcomes(row, view, ends)
    if row.remaining:
        row = _within_deadline(row, view.now_ms, notes)
    elif row.state is State.RUNNING:
        row = _ended(row, notes)
    if row == before:
        return same
    records = tuple(row if r.pk == row.pk else r for r in known.records)
    after = ScaleDowns(version=known_version + 1, records=records)
    return WentOn(after, (row,), tuple(notes), tuple(_forced(before, row, ends)))


def with_leavers(row: ScaleDown, changed: Mapping[str, Leaver]) -> ScaleDown:
    return replace(row, members={**row.members, **changed})


def _with_outcomes(row: ScaleDown, view: GroupRead, ends: Ends) -> ScaleDown:
    """Who is gone, and how; one that came back under its name has not gone after all.

    Where nothing tells how it went it is lost, but not while Redis may just have been wiped.
    """
    quiet, changed = came_back_lately(view), {}
    for member, leaver in row.members.items():
        if leaver.outcome and _is_here(member, leaver, view):
            changed[member] = replace(leaver, outcome=Outcome.HERE, at_ms=None)
        elif not leaver.outcome and member not in view.members and (member in ends or not quiet):
            went = ends.get(member, Went(view.now_ms, StayEnd.LOST))
            at_ms = max(went.at_ms, row.asked_at_ms)
            changed[member] = replace(leaver, outcome=_outcome(leaver, went), at_ms=at_ms)
    return with_leavers(row, changed)


def _outcome(leaver: Leaver, went: Went) -> Outcome:
    """Who was sent a SIGTERM meanwhile waited for no learner either (S4)."""
    if went.end is StayEnd.LOST:
        return Outcome.DIED
    return Outcome.FORCED if leaver.forced or went.signalled else Outcome.CLEAN


def _forced(before: ScaleDown, after: ScaleDown, ends: Ends) -> Iterable[tuple[str, int]]:
    """Whom a scale-down forced went by itself: only the record tells."""
    for member, leaver in after.members.items():
        was = before.members[member].outcome
        if leaver.outcome is Outcome.FORCED and not was and member in ends:
            yield member, ends[member].at_ms


def _within_deadline(row: ScaleDown, now_ms: int, notes: list[Note]) -> ScaleDown:
    """S5: when the time is up those who are left go at once, or everything is given back."""
    if not time_is_up(now_ms if row.told_at_ms is None else row.told_at_ms, now_ms, row.timeout_ms):
        return row
    waiting = [m for m in row.remaining if not row.members[m].forced]
    if row.aborts:
        notes.append(_note(row, "abort scale down", "its time is up", kept=waiting))
        return cancelled(row, now_ms)
    if waiting:
        notes.append(_note(row, "force members", "their time is up", members=waiting))
    return forced(row, waiting)


def forced(row: ScaleDown, members: Iterable[str]) -> ScaleDown:
    return with_leavers(row, {m: replace(row.members[m], forced=True) for m in members})


def cancelled(row: ScaleDown, now_ms: int) -> ScaleDown:
    """S7: whoever is still here stays."""
    stays = {
        m: replace(row.members[m], outcome=Outcome.CANCELLED, at_ms=now_ms) for m in row.remaining
    }
    return replace(with_leavers(row, stays), state=State.CANCELLED, ended_at_ms=now_ms)


def _ended(row: ScaleDown, notes: list[Note]) -> ScaleDown:
    ended_ms = max((e.at_ms for e in row.members.values() if e.at_ms is not None), default=None)
    outcomes = {member: leaver.outcome.value for member, leaver in sorted(row.members.items())}
    notes.append(_note(row, "scale down ended", "every member is gone", outcomes=outcomes))
    return replace(row, state=State.DONE, ended_at_ms=ended_ms)


def _reopened(row: ScaleDown, view: GroupRead, notes: list[Note]) -> ScaleDown:
    """The newest record with a lost member that is back goes on. To be asked when none runs."""
    back = _back(row, view)
    notes.append(_note(row, "scale down goes on", "a lost member is back", members=back))
    here = {m: replace(row.members[m], outcome=Outcome.HERE, at_ms=None) for m in back}
    return replace(with_leavers(row, here), state=State.RUNNING, ended_at_ms=None)


def _note(row: ScaleDown, action: str, reason: str, **after: object) -> Note:
    return Note(action=action, reason=reason, after={"scale_down": row.pk, **after})
