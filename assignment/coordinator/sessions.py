"""Whose session is over: members that gave no sign of life, while somebody watched."""

from assignment.coordinator.effects import Evict
from assignment.coordinator.reading import settings_of
from assignment.scripts import GroupRead
from assignment.types import Reason

TICK_AWAY_MS = 3_000  # a tick older than this: nobody watched, so no session ends yet


def expired_members(view: GroupRead) -> tuple[Evict, ...]:
    """Members without heartbeat and renew for session_timeout_ms. To be asked of a tick's view.

    None while the ticks or Redis were away less than one session ago.
    """
    timeout = settings_of(view).session_timeout_ms
    watched = view.now_ms - view.meta.tick_ms <= TICK_AWAY_MS
    if not watched or view.now_ms < view.meta.quiet_until_ms:
        return ()
    return tuple(
        Evict(member=member, beat=beat, reason=Reason.LOST)
        for member, beat in sorted(view.beats.items())
        if member in view.members and view.now_ms - beat > timeout
    )
