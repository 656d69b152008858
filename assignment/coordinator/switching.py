"""Whether a group may go over to other coordination (coordination.md section 5). Decides only."""

import re

from assignment.coordinator.effects import KeepMode
from assignment.scripts.group_read import GroupRead, MemberRow, Meta
from assignment.types import Coordination

COORDINATES_SINCE = (0, 2)  # the first version whose agents compute targets
_VERSION = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?(\D.*)?")


def why_not(view: GroupRead, mode: Coordination, *, expected: int | None, is_ticked: bool) -> str:
    """One sentence, "" when it may; that it is so already is done. `expected`: the mode_epoch that
    whoever asks has seen. `is_ticked`: a dashboard looks at this group every second.
    """
    meta = view.meta
    if meta.settings is None:
        return "the group is not in Redis"
    if expected is not None and expected != meta.mode_epoch:
        return f"the mode epoch is {meta.mode_epoch} ({meta.coordination}), not {expected}"
    if meta.coordination is mode:
        return ""
    if mode is Coordination.SERVER:
        return "" if is_ticked else "no dashboard ticks over this group, so none would compute"
    unfit = [row for _, row in sorted(view.members.items()) if not coordinates(row)]
    who = ", ".join(f"{row.member_id} (version {row.version or 'unknown'})" for row in unfit)
    since = ".".join(map(str, COORDINATES_SINCE))
    return f"agents coordinate from version {since} on, so not {who}" if unfit else ""


def kept(meta: Meta) -> KeepMode:
    """What the records are to have of it."""
    return KeepMode(meta.mode, meta.coordination, meta.mode_by)


def coordinates(row: MemberRow) -> bool:
    """Whether that member's agent can compute."""
    found = _VERSION.fullmatch(row.version)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= COORDINATES_SINCE
