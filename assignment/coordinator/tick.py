"""The periodic look at a group: what was missed is done now (coordination.md section 3).

First what safety and failover need, which no record can stop; then what is only recorded.
"""

from contextlib import suppress

from assignment import invariants
from assignment.coordinator import effects
from assignment.coordinator.draining import advance
from assignment.coordinator.facts import GroupRecord
from assignment.coordinator.finishing import finish, is_cut_short, note_first_effects
from assignment.coordinator.reading import without_lock
from assignment.coordinator.setting_up import raise_incarnation, tell
from assignment.coordinator.stays import expired_members, note_stays
from assignment.scripts.dashboard_side import evict, request_rebalance, sweep
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import Reason


def tick(record: GroupRecord) -> effects.Steps[None]:
    if (yield from tell(record)):
        yield from effects.Push("settings")
    view = yield from effects.Read(Purpose.TICK)
    if view.meta.settings is None:
        return  # wiped between the two looks: the next tick puts it back
    yield from raise_incarnation(record, view)
    yield from _end_what_ended(view)
    view = yield from effects.Read(Purpose.LOOK)
    if view.meta.settings is None:
        return
    due = yield from _ask(view)
    with suppress(effects.RecordsAway):  # the next tick makes up for it
        yield from _keep_records(view, due=due)


def _end_what_ended(view: GroupRead) -> effects.Steps[None]:
    """Locks that ran out, and sessions of members that gave no sign of life."""
    if any(g.ended is None and p not in view.locks for p, g in view.grants.items()):
        yield from effects.Run(sweep())
    for member, beat in expired_members(view).items():
        yield from effects.Run(evict(member, beat, Reason.LOST))


def _ask(view: GroupRead) -> effects.Steps[bool]:
    """Whether a rebalance is due: something changed, or an assignment is not taken up."""
    due = view.meta.group_epoch > view.meta.target_epoch
    if not due and without_lock(view):
        yield from effects.Run(request_rebalance(Reason.UNABLE))
        due = True
    if due:
        yield from effects.WantRebalance()
    return due


def _keep_records(view: GroupRead, *, due: bool) -> effects.Steps[None]:
    yield from effects.KeepOutbox()
    stored = yield from effects.KeepEvents()
    moved = yield from note_stays(view)
    moved = (yield from advance(view)) or moved
    done = yield from finish(view)
    yield from note_first_effects(view)
    yield from effects.KeepFaults(
        tuple((fault.kind.value, fault.text) for fault in invariants.faults(view))
    )
    if not due and (why := (yield from _wish(view))):
        yield from effects.Run(request_rebalance(why))
        yield from effects.WantRebalance()
    if stored or moved or done:
        yield from effects.Push("history" if stored or done else "members")


def _wish(view: GroupRead) -> effects.Steps[Reason | None]:
    """A person's, or a change that is not yet whole."""
    if (yield from effects.ReadRequests()):
        return Reason.MANUAL
    return Reason.NEXT_ROUND if (yield from is_cut_short(view)) else None
