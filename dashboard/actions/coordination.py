"""Who computes a group's targets: the dashboard or its agents. For page and command alike."""

from typing import NamedTuple

from assignment.coordinator import switching
from assignment.coordinator.effects import ModeKept
from assignment.errors import InvalidInput
from assignment.scripts.dashboard_side import set_mode
from assignment.scripts.group_read import TICKER_AWAY_MS, Meta, Purpose
from assignment.types import Coordination
from dashboard.actions.access import require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.coordinator import records
from dashboard.live import groups as live_groups
from dashboard.live import proofs, push, queue
from dashboard.live.scripts import run
from dashboard.models import Group
from dashboard.records import audit
from dashboard.records.audit import By


class Switched(NamedTuple):
    """Equal when it was so already."""

    before: Meta
    after: Meta


def mode_named(text: str) -> Coordination:
    """Raises InvalidInput."""
    try:
        return Coordination(text)
    except ValueError:
        known = " nor ".join(Coordination)
        raise InvalidInput(f"coordination {text!r} is neither {known}") from None


@audit.attempted("switch coordination")
def switch(group: Group, mode: Coordination, by: By, *, expected: int | None = None) -> Switched:
    """Audited with what it was before. Raises Denied, Refused and StoreUnavailable. If this is
    killed when Redis has it already, the next tick keeps it.
    """
    require(by, Action.CHANGE_SETTINGS, group)
    asked = records.ask_switch(group, mode, by)
    try:
        with audit.atomic():
            Group.locked(group.pk)
            switched = _switch(group.name, mode, by, expected, note=asked.note)
            records.keep_mode(group, switching.kept(switched.before))
            if records.keep_mode(group, switching.kept(switched.after)) is ModeKept.UNKNOWN:
                found = switched.after.coordination
                raise Refused(f"group {group.name!r}: {found} {records.NOBODY_ASKED}: ask again")
            asked.delete()
    except Refused:
        asked.delete()
        raise
    push.push(group.name, "settings")
    return switched


def switch_in_redis(
    name: str, mode: Coordination, by: By, *, expected: int | None = None
) -> Switched:
    """Without a database. A dashboard that has the group and the same SECRET_KEY keeps it with its
    next tick; another one puts back what it had.
    """
    return _switch(name, mode, by, expected)


def _switch(
    name: str, mode: Coordination, by: By, expected: int | None, *, note: str = ""
) -> Switched:
    view = live_groups.read(name, Purpose.LOOK)
    if why := switching.why_not(view, mode, expected=expected, is_ticked=is_ticked(name)):
        raise Refused(f"group {name!r}: {why}")
    meta = view.meta
    note = note or proofs.prove(meta.identity, mode.value, meta.incarnation, meta.mode_epoch + 1)
    done = run(set_mode(meta.mode, mode, note, by.reason), name)
    after = live_groups.read(name, Purpose.LOOK).meta
    if not done.done:
        now = f"{after.coordination}, mode epoch {after.mode_epoch}"
        raise Refused(f"group {name!r}: another one switched at the same moment ({now})")
    return Switched(meta, after)


def is_ticked(name: str) -> bool:
    """Whether a dashboard that has the group ticks; agents that coordinate leave other signs."""
    return name in live_groups.known_groups() and queue.ticker_age_ms() <= TICKER_AWAY_MS
