"""Why something changed in a group: the words that hints, targets and scripts have for it."""

from enum import StrEnum


class Reason(StrEnum):
    """Why something changed: of hints, targets and evictions; the scripts write the same words."""

    MANUAL = "manual"  # a person asked
    SCALE_DOWN = "scale-down"
    FORCED = "forced"
    CANCELLED = "cancelled"
    STATEFUL = "stateful"
    STRATEGY = "strategy"
    STANDBYS = "standbys"
    LEARNERS = "learners"
    PARTITIONS = "partitions"
    LOST = "member lost"
    LEAVE = "leave"
    LEAVING = "leaving"
    UNABLE = "unable"
    UNSERVED = "unserved"  # a partition that a member cannot serve
    JOIN = "join"
    ABLE = "able"
    READY = "ready"
    NEXT_ROUND = "next round"
    INCARNATION = "incarnation"  # Redis may have lost a target
    # NOT_A_CAUSE:
    TARGET = "target"
    RELEASED = "released"
    EXPIRED = "expired"
    REVOKED = "revoked"
    SETTINGS = "settings"
    MODE = "mode"  # who coordinates
    WIPED = "redis wiped"


# They tell agents something and change nothing that a plan depends on.
NOT_A_CAUSE = frozenset(
    (
        Reason.TARGET,
        Reason.RELEASED,
        Reason.EXPIRED,
        Reason.REVOKED,
        Reason.SETTINGS,
        Reason.MODE,
        Reason.WIPED,
    )
)
