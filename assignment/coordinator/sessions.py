"""Whose session is over: members that gave no sign of life, while one could have been seen."""

from assignment.coordinator.effects import Evict
from assignment.coordinator.reading import known_ms, settings_of
from assignment.scripts.group_read import GroupRead
from assignment.types import Reason


def expired_members(view: GroupRead) -> tuple[Evict, ...]:
    """Members without heartbeat and renew for session_timeout_ms, not counting the time in which
    nobody could know. A tick that is only late knows: beats are read as they are now.
    """
    timeout = settings_of(view).session_timeout_ms
    return tuple(
        Evict(member=member, beat=beat, reason=Reason.LOST)
        for member, beat in sorted(view.beats.items())
        if member in view.members and known_ms(view, beat) > timeout
    )
