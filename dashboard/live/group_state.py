"""The one word for how a group is, by the same rule from live numbers and from stored ones.

Pure. The words, their order and the limits stand here only.
"""

from dataclasses import dataclass
from enum import StrEnum

TICK_AGE_MAX_MS = 5_000  # it runs every second
STUCK_MS = 15_000  # some of the slowest batches; an event that waits longer is not being processed
LAG_SECONDS_MAX = 60  # behind by more than a minute of its own rate
LAG_RECORDS_MIN = 1_000  # less than this is a batch in hand, not lag


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
ATTENTION = ORDER[: ORDER.index(GroupState.UNKNOWN)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the word follows from. `stalled`: members that make no progress."""

    members: int
    conflicts: int
    unowned: int
    stalled: int
    lag_records: int | None
    events_per_second: float | None
    tick_age_ms: int = 0
    flapping: str = ""  # who or what goes back and forth (records.queries.flapping)
    is_rebalancing: bool = False
    max_minus_min: int = 0  # of a target that is whole


def judged(facts: Facts) -> tuple[GroupState, str]:
    """The first word that fits, and what it means here."""
    uneven, unowned = facts.max_minus_min, facts.unowned
    words = (
        (GroupState.CONFLICT, facts.conflicts, f"{facts.conflicts} partitions with two claims"),
        (GroupState.EMPTY, not facts.members, "no member: start an agent"),
        (
            GroupState.NO_COORDINATOR,
            facts.tick_age_ms > TICK_AGE_MAX_MS,
            "no tick for a while: nothing is rebalanced and nobody takes over; /readyz says why",
        ),
        (GroupState.UNOWNED, unowned, f"{unowned} partitions without an owner"),
        (GroupState.FLAPPING, facts.flapping, facts.flapping),
        (GroupState.STALLED, facts.stalled, f"{facts.stalled} members make no progress"),
        (GroupState.REBALANCING, facts.is_rebalancing, "a new target is being taken up"),
        (GroupState.UNBALANCED, uneven > 1, f"most and least loaded differ by {uneven}"),
        (
            GroupState.LAGGING,
            is_lagging(facts.lag_records, facts.events_per_second),
            f"behind by more than {LAG_SECONDS_MAX} s of its own rate",
        ),
    )
    found = ((word, why) for word, fits, why in words if fits)
    return next(found, (GroupState.STEADY, "all partitions owned"))


def is_lagging(lag_records: int | None, events_per_second: float | None) -> bool:
    if lag_records is None or lag_records < LAG_RECORDS_MIN:
        return False
    return lag_records > LAG_SECONDS_MAX * (events_per_second or 0)
