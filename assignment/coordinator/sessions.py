"""Whose session is over: members that gave no sign of life, while one could have been seen."""

from assignment.coordinator.effects import Evict
from assignment.coordinator.reading import TICKER_AWAY_MS, settings_of
from assignment.scripts import Gap, GroupRead
from assignment.types import Reason


def expired_members(view: GroupRead) -> tuple[Evict, ...]:
    """Members without heartbeat and renew for session_timeout_ms, not counting the time in which
    nobody could know. A tick that is only late knows: beats are read as they are now.
    """
    timeout = settings_of(view).session_timeout_ms
    return tuple(
        Evict(member=member, beat=beat, reason=Reason.LOST)
        for member, beat in sorted(view.beats.items())
        if member in view.members and _silent_ms(view, beat) > timeout
    )


def _silent_ms(view: GroupRead, beat: int) -> int:
    unknown = sum(max(0, gap.until_ms - max(gap.from_ms, beat)) for gap in view.meta.away)
    return view.now_ms - beat - unknown


def ticker_away(now_ms: int, seen_ms: int | None, before: Gap) -> Gap:
    """The last time when nobody ticked. `seen_ms`: the last sign of life; None: none is known."""
    if seen_ms is None:
        return Gap(0, now_ms)
    return Gap(seen_ms, now_ms) if now_ms - seen_ms > TICKER_AWAY_MS else before
