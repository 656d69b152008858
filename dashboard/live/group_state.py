"""The one word for how a group is now, by the same rule from live numbers and from stored ones.

Pure. What troubles a group can have, and from when on, stands in attention.py; the words and their
order stand here. The word tells of this moment, by the limits that a group begins with; what lasts
beyond a group's own limits needs attention.
"""

from enum import StrEnum

from dashboard.live import attention
from dashboard.live.attention import Facts

STUCK_MS = 15_000  # some of the slowest batches; an event that waits longer is not being processed


class GroupState(StrEnum):
    """In the order of lists: what needs attention first (dashboard.md section 2)."""

    CONFLICT = "conflict"
    UNOWNED = "unowned"
    NO_COORDINATOR = "no coordinator"
    FLAPPING = "flapping"
    STALLED = "stalled"
    UNBALANCED = "unbalanced"
    LAGGING = "lagging"
    UNKNOWN = "unknown"
    EMPTY = "empty"
    REBALANCING = "rebalancing"
    STEADY = "steady"


ORDER = tuple(GroupState)
SAID_FIRST = (  # of several that fit
    *(GroupState.CONFLICT, GroupState.EMPTY, GroupState.NO_COORDINATOR, GroupState.UNOWNED),
    *(GroupState.FLAPPING, GroupState.STALLED, GroupState.REBALANCING, GroupState.UNBALANCED),
    GroupState.LAGGING,
)


def judged(facts: Facts) -> tuple[GroupState, str]:
    """The first word that fits, and what it means here."""
    fits: dict[str, str | None] = attention.holding(facts)
    if not facts.members:
        fits[GroupState.EMPTY] = "no member: start an agent"
    if facts.is_rebalancing:
        fits[GroupState.REBALANCING] = "a new target is being taken up"
    found = ((word, why) for word in SAID_FIRST if (why := fits.get(word)))
    return next(found, (GroupState.STEADY, "all partitions owned"))
