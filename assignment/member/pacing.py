"""When a member speaks to the dashboard and asks for locks: beside the others of its group, not
together with them, and the less often the more it asks for.
"""

from zlib import crc32

JOIN_RETRY_MS = 500  # doubled up to a heartbeat
RETRY_EARLIEST = 0.5  # of the pause: who failed together does not come again together
REJOIN_WITHIN_MS = 500  # what fenced one member may have fenced all: they do not all join at once
RETRY_LATER = (1.0, 1.5)  # of what a dashboard asked for: nor do those whom it refused together

CALLED_A_SECOND = 6_000  # members of a group that act on what all of them were told
NEWS_A_SECOND = 1_000  # heartbeats of a group that are not due
FEW = 100  # members, who do so at once: a tenth of a second more or less

ASKED_APART_MAX_MS = 5_000  # half of the time that a lock lives


def phase_of(member_id: str) -> float:
    """0 to 1: where in a pause this member has its turn."""
    return crc32(member_id.encode()) / 2**32


def next_beat_ms(now_ms: int, pause_ms: int, phase: float) -> int:
    """The first moment after `now_ms` of a row of them, `pause_ms` apart. Rows of members lie
    beside each other, by their phases: what made all beat at once (a target, say) leaves them so.
    """
    return now_ms + pause_ms - (now_ms - int(phase * pause_ms)) % pause_ms


def called_ms(members: int, phase: float) -> int:
    """How long one of so many waits with what all were told. Ten thousand that read a target and
    ask for their locks at once keep Redis from everybody else for a second or two; each that would
    read it by itself meanwhile, with its next renew, does.
    """
    return _beside(members, phase, CALLED_A_SECOND)


def news_ms(members: int, phase: float) -> int:
    """How long one of so many waits that has something new to say before its heartbeat is due. What
    changes for all at once is told by all: ten thousand would double their heartbeats just when all
    of them ask for locks. They tell it when they would beat anyway.
    """
    return _beside(members, phase, NEWS_A_SECOND)


def _beside(members: int, phase: float, a_second: int) -> int:
    return int(phase * members * 1_000 / a_second) if members > FEW else 0


def rejoin_ms(phase: float, heartbeat_ms: int) -> int:
    """How long one that was fenced waits before it joins anew."""
    return int(phase * min(REJOIN_WITHIN_MS, heartbeat_ms))


def next_join_pause_ms(pause_ms: int, heartbeat_ms: int) -> int:
    """After one more join that was not taken in."""
    return min(2 * pause_ms, max(JOIN_RETRY_MS, heartbeat_ms))


def asked_apart_ms(waiting: int) -> int:
    """From one question for all locks that a member waits for to the next, whatever it hears of
    them: nothing to speak of for ten, a fifth of a second for a hundred. Each question costs Redis
    as much as there are, and whoever gives a thousand away says so of each.
    """
    return min(waiting * waiting // 50, ASKED_APART_MAX_MS)
