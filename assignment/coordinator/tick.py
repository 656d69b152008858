"""The periodic look at a group: what was missed is done now (coordination.md section 3).

First what safety and failover need, which no record can stop; then what is only recorded.
"""

from contextlib import suppress
from typing import Any

from assignment import invariants, sizes
from assignment.coordinator import effects
from assignment.coordinator.draining import advance
from assignment.coordinator.facts import GroupRecord
from assignment.coordinator.finishing import finish, is_cut_short, note_first_effects
from assignment.coordinator.incarnation import without_bad_claims
from assignment.coordinator.learners import are_standbys_due
from assignment.coordinator.reading import without_lock
from assignment.coordinator.rebalance import keep_outbox
from assignment.coordinator.resting import Looked, Watch
from assignment.coordinator.setting_up import may_raise, put_right, raise_incarnation, tell
from assignment.coordinator.stays import expired_members, note_stays
from assignment.coordinator.switching import kept
from assignment.scripts.dashboard_side import (
    ask_complete,
    evict,
    request_rebalance,
    set_mode,
    sweep,
)
from assignment.scripts.group_read import GroupRead, Meta, Purpose
from assignment.types import Coordination, Reason

OUTBOX_TURNS = 2  # of one tick, some 40 targets: a group computes far fewer in a second
CHANGING = (  # what was read before
    *(effects.Run, effects.Configure, effects.Hold, effects.LiftStreams),
    effects.RaiseIncarnation,
)
NOBODY_ASKED = "put back: no dashboard was asked for that switch"


def tick(record: GroupRecord, by: Coordination) -> effects.Steps[Looked]:
    """A whole look."""
    watch = Watch()
    view = yield from watch.over(_look(record, by))
    return watch.looked(record, view)


def _look(record: GroupRecord, by: Coordination) -> effects.Steps[GroupRead | None]:
    """What was read of the group last; None: Redis does not have it. Where others than `by`
    compute, a rebalance is asked for only when a person wished it.
    """
    if (yield from tell(record)):
        yield from effects.Push("settings")
    view = yield from effects.Read(Purpose.TICK)
    if view.meta.settings is None:
        return None  # wiped between the two looks: the next tick puts it back
    changes = list[effects.Effect[Any]]()

    def note(effect: effects.Effect[Any], answer: Any) -> None:
        if isinstance(effect, CHANGING):
            changes.append(effect)

    view = yield from effects.over(_make_safe(record, view, by), note)
    if changes:
        view = without_bad_claims((yield from effects.Read(Purpose.LOOK)), record.incarnation)
        if view.meta.settings is None:
            return None
    if bad := [member for member in view.bad_reports if member in view.members]:
        yield from effects.Run(ask_complete(bad))
    computes = view.meta.coordination is by
    due = view.meta.group_epoch > view.meta.target_epoch
    if computes and not due and without_lock(view):
        yield from effects.Run(request_rebalance(Reason.UNABLE))
        due = True
    if computes and due:
        yield from effects.WantRebalance()
    with suppress(effects.RecordsAway):  # the next tick makes up for it
        yield from _keep_mode(record, view.meta)
    with suppress(effects.RecordsAway):
        yield from _keep_records(view)
    with suppress(effects.RecordsAway):
        yield from _ask(view, computes=computes, due=due)
    return view


def _make_safe(record: GroupRecord, view: GroupRead, by: Coordination) -> effects.Steps[GroupRead]:
    """`view` without bad claims."""
    yield from _end_sessions(view)  # first: it needs no report, which may be many and large
    view = without_bad_claims(view, record.incarnation)
    yield from put_right(record, view.meta)
    if may_raise(record, view, by):
        yield from raise_incarnation(record, view)
    yield from _end_locks(view)
    return view


def _end_sessions(view: GroupRead) -> effects.Steps[None]:
    """Of members that gave no sign of life."""
    for member, beat in expired_members(view).items():
        row = view.members.get(member)
        reason = Reason.LEAVE if row is not None and row.stopped else Reason.LOST
        yield from effects.Run(evict(member, beat, reason))


def _end_locks(view: GroupRead) -> effects.Steps[None]:
    """Those that ran out."""
    index, grants = view.index, view.grants
    granted, locked = index.at(grants.places), index.at(view.locks.places)
    ran_out = [*index.places(granted[grants.lasts & ~index.mask(locked)[granted]])]
    for first in range(0, len(ran_out), sizes.SWEPT_AT_ONCE):
        yield from effects.Run(sweep(ran_out[first : first + sizes.SWEPT_AT_ONCE]))


def _keep_mode(record: GroupRecord, meta: Meta) -> effects.Steps[None]:
    """Switched by one that was killed in between, or had no database; or by nobody known."""
    if meta.mode <= record.mode:
        return
    found = yield from kept(meta)
    if found is effects.ModeKept.UNKNOWN:
        yield from effects.Run(set_mode(meta.mode, record.coordination, "", NOBODY_ASKED))
    if found is not effects.ModeKept.KNOWN:
        yield from effects.Push("settings")


def _keep_records(view: GroupRead) -> effects.Steps[None]:
    yield from keep_outbox(OUTBOX_TURNS)
    moved = yield from note_stays(view)
    moved = (yield from advance(view)) or moved
    last = yield from effects.ReadRound()
    done = yield from finish(view, last)
    yield from effects.AdvancePlans()
    if last is not None:  # else none is over
        yield from note_first_effects(view)
    yield from effects.KeepFaults(
        tuple((fault.kind.value, fault.text) for fault in invariants.faults(view))
    )
    if moved or done:
        yield from effects.Push("history" if done else "members")


def _ask(view: GroupRead, *, computes: bool, due: bool) -> effects.Steps[None]:
    """For a plan, or for the rest of a change that is not yet whole. A plan raises the epoch with
    its own target: it is only to be looked at.
    """
    if (yield from effects.ReadRequests()):
        yield from effects.WantRebalance()
    elif not due and computes and (yield from _is_not_whole(view)):
        yield from effects.Run(request_rebalance(Reason.NEXT_ROUND))
        yield from effects.WantRebalance()


def _is_not_whole(view: GroupRead) -> effects.Steps[bool]:
    return are_standbys_due(view) or (yield from is_cut_short(view))
