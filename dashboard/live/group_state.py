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
    PAUSING = "pausing"
    PAUSED = "paused"
    STEADY = "steady"


ORDER = tuple(GroupState)
SAID_FIRST = (  # of several that fit
    *(GroupState.CONFLICT, GroupState.EMPTY, GroupState.NO_COORDINATOR, GroupState.UNOWNED),
    *(GroupState.FLAPPING, GroupState.PAUSING, GroupState.PAUSED, GroupState.STALLED),
    *(GroupState.REBALANCING, GroupState.UNBALANCED, GroupState.LAGGING),
)


def judged(facts: Facts) -> tuple[GroupState, str]:
    """The first word that fits, and what it means here."""
    fits: dict[str, str | None] = attention.holding(facts)
    if not facts.members:
        fits[GroupState.EMPTY] = "no member: start an agent"
    if facts.is_rebalancing:
        fits[GroupState.REBALANCING] = "a new target is being taken up"
    if facts.is_paused:
        fits[GroupState.PAUSING if facts.pausing else GroupState.PAUSED] = _paused(facts)
    found = ((word, why) for word in SAID_FIRST if (why := fits.get(word)))
    others = f", {facts.paused} paused" if facts.paused else ""
    return next(found, (GroupState.STEADY, f"all partitions owned{others}"))


def _paused(facts: Facts) -> str:
    """ "pausing (2 of 6) since ..., by ...": partitions that stand still, of all."""
    confirmed = f"({facts.paused - facts.pausing} of {facts.paused}) " if facts.pausing else ""
    word = "pausing" if facts.pausing else "paused"
    return f"{word} {confirmed}{facts.pause}".strip()
