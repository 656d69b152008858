"""The periodic look at every group, once a second: what was missed is done now (coordination.md
section 3).
"""

import logging

from assignment.coordinator import expired_members, without_lock
from assignment.scripts import GroupRead, Purpose
from dashboard.coordinator.asking import want_rebalance
from dashboard.coordinator.draining import advance
from dashboard.coordinator.finishing import finish, note_first_effects, record_missing
from dashboard.coordinator.history import store_events
from dashboard.coordinator.members import LOST, note_members
from dashboard.coordinator.rebalancing import MANUAL
from dashboard.coordinator.rounds import NEXT_ROUND, is_cut_short
from dashboard.coordinator.setting_up import raise_incarnation, tell
from dashboard.live import StoreUnavailable, health, push, queue
from dashboard.live import groups as live_groups
from dashboard.models import Group, RequestState

log = logging.getLogger(__name__)


def tick() -> int:
    """How many groups were looked at; 0 also when another process is at it. Raises
    StoreUnavailable.
    """
    with queue.ticking() as mine:
        if not mine:
            return 0
        looked = 0
        for group in Group.objects.all():
            try:
                tick_group(group)
                looked += 1
            except StoreUnavailable:
                raise
            except Exception:  # the top of a loop: one group's trouble is not the others'
                log.exception("tick failed group=%s", group.name)
        health.stamp(health.Sign.TICK)
        return looked


def tick_group(group: Group) -> None:
    if tell(group):
        push.push(group.name, "settings")
    view = _read(group)
    if view.meta.settings is None:
        return  # wiped between the two looks: the next tick puts it back
    raise_incarnation(group, view)
    _end_what_ended(group, view)
    stored = store_events(group)
    view = _read(group)
    moved = note_members(group, view)
    moved = advance(group, view) or moved
    if record_missing(group, view):
        log.error("record of epoch %d was lost group=%s", view.meta.target_epoch, group.name)
    done = finish(group, view, _delivered_ms(view))
    note_first_effects(group, view)
    _ask(group, view)
    if stored or moved or done:
        push.push(group.name, "history" if stored or done else "members")


def _read(group: Group) -> GroupRead:
    return live_groups.read(group.name, Purpose.TICK, group.values.session_timeout_ms)


def _end_what_ended(group: Group, view: GroupRead) -> None:
    """Locks that ran out, and sessions of members that gave no sign of life."""
    if any(g.ended is None and p not in view.locks for p, g in view.grants.items()):
        live_groups.sweep(group.name)
    for gone in expired_members(view):
        result = live_groups.evict(group.name, gone.member, gone.beat, LOST)
        log.info("evict group=%s member=%s %s: %s", group.name, gone.member, result, gone.reason)


def _delivered_ms(view: GroupRead) -> int | None:
    """When the last agent said that it has the stored target; None while one has not."""
    said = [view.reports.get(member) for member in view.members]
    if any(r is None or r.target_epoch < view.meta.target_epoch for r in said):
        return None
    return max((r.at_ms for r in said if r is not None), default=None)


def _ask(group: Group, view: GroupRead) -> None:
    """Asks for a rebalance that is due: what changed, or a task that was lost, is found here."""
    due = view.meta.group_epoch > view.meta.target_epoch
    if not due and (why := _why_now(group, view)):
        live_groups.request_rebalance(group.name, why)
        due = True
    if due:
        want_rebalance(group.name)


def _why_now(group: Group, view: GroupRead) -> str:
    """An assignment not taken up, a person's wish, a change that is not yet whole; or ""."""
    if halted := without_lock(view):
        log.warning("no lock taken group=%s %s", group.name, halted)
        return "unable"
    if group.requests.filter(state=RequestState.PENDING).exists():
        return MANUAL
    return NEXT_ROUND if is_cut_short(group, view) else ""
