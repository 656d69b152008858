"""What of a group needs somebody's attention: the rules, each declared once.

Pure. A rule has a reason, limits that a group may set for itself (in Settings), and a next step. It
needs attention once it has held for so long; what ends only for a moment has not ended. A group
that starts up needs none, but for two claims on one partition.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

TICK_AGE_MAX_MS = 5_000  # it runs every second
SETTLE_MS = 30_000  # held again within this, it is the same occurrence
UNKNOWN_MS = 30_000  # not looked at for so long: what holds now may have begun anew
COUNT_MAX, SPAN_MAX_MS = 1_000_000_000, 86_400_000

Limits = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Of a count, or of milliseconds when `is_span`. It is reached by as much, or more."""

    name: str
    label: str
    default: int
    help_text: str = ""
    is_span: bool = False
    least: int = 1

    @property
    def most(self) -> int:
        return SPAN_MAX_MS if self.is_span else COUNT_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the rules look at. `stalled`: members that make no progress. `lag_records`: without that
    of paused partitions, whose events are meant to wait. None: not known.
    """

    members: int
    conflicts: int | None
    unowned: int
    stalled: int | None
    lag_records: int | None
    events_per_second: float | None
    tick_age_ms: int = 0
    flapping: str = ""  # who or what goes back and forth (records.queries.flapping)
    is_rebalancing: bool = False
    max_minus_min: int = 0  # of a target that is whole
    is_paused: bool = False  # the group, or each of its partitions
    paused: int = 0  # partitions
    pausing: int = 0  # of these, whose owner has not confirmed
    pause: str = ""  # since when, by whom, why; of the group


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`why`: the reason why it holds; "" where it does not, None where nobody knows."""

    word: str
    meaning: str
    why: Callable[[Facts, Limits], str | None]
    limits: tuple[Limit, ...]
    lasts: Limit
    step: str
    page: str  # where the next step is done: the name of its address,
    is_of_group: bool = True  # which has the group in it
    counts_at_start: bool = False

    def begins(self) -> tuple[Limit, ...]:
        return (*self.limits, self.lasts)


# --- the rules ------------------------------------------------------------------------------------


def _conflict(facts: Facts, limits: Limits) -> str | None:
    found = facts.conflicts
    if found is None:
        return None
    return _if(
        found >= limits["conflict_partitions"], f"{_many(found, 'partition')} with two claims"
    )


def _unowned(facts: Facts, limits: Limits) -> str | None:
    found = facts.unowned if facts.members else 0
    return _if(
        found >= limits["unowned_partitions"], f"{_many(found, 'partition')} without an owner"
    )


def _no_coordinator(facts: Facts, limits: Limits) -> str | None:
    why = "no tick for a while: nothing is rebalanced and nobody takes over; /readyz says why"
    return _if(facts.tick_age_ms > limits["no_coordinator_ms"], why)


def _flapping(facts: Facts, limits: Limits) -> str | None:
    """Its limits count where tenures and stays are read."""
    return facts.flapping


def _stalled(facts: Facts, limits: Limits) -> str | None:
    found = facts.stalled
    if found is None:
        return None
    verb = "makes" if found == 1 else "make"
    return _if(found >= limits["stalled_members"], f"{_many(found, 'member')} {verb} no progress")


def _unbalanced(facts: Facts, limits: Limits) -> str | None:
    found = 0 if facts.is_rebalancing else facts.max_minus_min
    why = f"most and least loaded differ by {found}"
    return _if(found >= limits["unbalanced_difference"], why)


def _lagging(facts: Facts, limits: Limits) -> str | None:
    if facts.lag_records is None:
        return None
    why = f"behind by more than {limits['lagging_behind_ms'] / 1000:g} s of its own rate"
    if not facts.members:
        why = f"no member while {_many(facts.lag_records, 'event')} wait: start an agent"
    return _if(is_lagging(facts.lag_records, facts.events_per_second, limits), why)


def _if(holds: bool, why: str) -> str:
    return why if holds else ""


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _lasts(word: str, default_ms: int) -> Limit:
    return Limit(
        name=f"{word}_for_ms",
        label="for",
        default=default_ms,
        help_text="so long before it needs attention; 0: at once",
        is_span=True,
        least=0,
    )


RULES = (  # the worst first
    Rule(
        word="conflict",
        meaning="Two members claim a partition; only one of them can commit.",
        why=_conflict,
        limits=(Limit(name="conflict_partitions", label="partitions", default=1),),
        lasts=_lasts("conflict", 0),
        step="Find the partitions on the map, and read the logs of both agents.",
        page="group",
        counts_at_start=True,
    ),
    Rule(
        word="unowned",
        meaning="Events of these partitions wait for an owner.",
        why=_unowned,
        limits=(Limit(name="unowned_partitions", label="partitions", default=1),),
        lasts=_lasts("unowned", 30_000),
        step="See which members are unable to own, and why.",
        page="group_members",
    ),
    Rule(
        word="no coordinator",
        meaning="Owners go on, but nothing is rebalanced and nobody takes over.",
        why=_no_coordinator,
        limits=(
            Limit(
                name="no_coordinator_ms",
                label="last tick longer ago than",
                default=TICK_AGE_MAX_MS,
                is_span=True,
                least=1_000,
            ),
        ),
        lasts=_lasts("no_coordinator", 10_000),
        step="See whether the worker, Redis or the database is away.",
        page="status",
        is_of_group=False,
    ),
    Rule(
        word="flapping",
        meaning="Owners go back and forth, or a member comes and goes.",
        why=_flapping,
        limits=(
            Limit(
                name="flapping_returns",
                label="returns of a partition",
                default=1,
                help_text="to an owner who had lost it, within 10 min",
            ),
            Limit(
                name="flapping_joins",
                label="joins of a member",
                default=3,  # a single restart is none of it
                help_text="within 10 min",
            ),
        ),
        lasts=_lasts("flapping", 0),
        step="See which causes follow each other in the history.",
        page="group_history",
    ),
    Rule(
        word="stalled",
        meaning="A consumer hangs, or a partition stands still at an event.",
        why=_stalled,
        limits=(Limit(name="stalled_members", label="members", default=1),),
        lasts=_lasts("stalled", 60_000),
        step="See which members stall, and read the logs of their consumers.",
        page="group_members",
    ),
    Rule(
        word="unbalanced",
        meaning="Some members have more to do than others.",
        why=_unbalanced,
        limits=(
            Limit(
                name="unbalanced_difference",
                label="partitions of difference",
                default=2,
                help_text="between the most and the least loaded member",
                least=2,
            ),
        ),
        lasts=_lasts("unbalanced", 300_000),
        step="Preview a rebalance.",
        page="rebalance_preview",
    ),
    Rule(
        word="lagging",
        meaning="More is appended than is applied.",
        why=_lagging,
        limits=(
            Limit(
                name="lagging_records",
                label="events behind",
                default=1_000,
                help_text="less is a batch in hand, not lag",
            ),
            Limit(
                name="lagging_behind_ms",
                label="behind by more than",
                default=60_000,
                help_text="of the group's own rate",
                is_span=True,
                least=1_000,
            ),
        ),
        lasts=_lasts("lagging", 120_000),
        step="See whether all partitions are behind or a few; then add members.",
        page="group_partitions",
    ),
)
STARTING = Limit(
    name="starting_ms",
    label="Starting up takes",
    default=120_000,
    help_text="at most, from the first member until every partition had an owner",
    is_span=True,
    least=0,
)
WORDS = tuple(rule.word for rule in RULES)
BY_WORD = {rule.word: rule for rule in RULES}
LIMITS = {one.name: one for one in (*(e for r in RULES for e in r.begins()), STARTING)}
DEFAULTS: Limits = {name: limit.default for name, limit in LIMITS.items()}


def holding(facts: Facts, limits: Limits = DEFAULTS) -> dict[str, str | None]:
    """By the word of the rule, the worst first: as `Rule.why`."""
    return {rule.word: rule.why(facts, limits) for rule in RULES}


def is_lagging(
    lag_records: int | None, events_per_second: float | None, limits: Limits = DEFAULTS
) -> bool:
    if lag_records is None or lag_records < limits["lagging_records"]:
        return False
    return lag_records * 1000 > limits["lagging_behind_ms"] * (events_per_second or 0)


# --- occurrences ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A rule that held when it was looked at last. `is_raised`: long enough to need attention."""

    began_at_ms: int
    seen_at_ms: int
    is_raised: bool


class Change(Enum):
    NOTHING = auto()
    BEGIN = auto()  # it holds, for the first time or anew
    SEE = auto()  # it goes on
    RAISE = auto()  # from now on it needs attention
    END = auto()  # when it was seen last
    FORGET = auto()  # it never needed any


def change(one: Open | None, why: str | None, at_ms: int, lasts_ms: int) -> Change:
    """What becomes of a rule's occurrence when the rule was looked at."""
    if why is None or (one is None and not why):
        return Change.NOTHING
    if one is None:
        return Change.RAISE if lasts_ms == 0 else Change.BEGIN
    if not why:
        return _not_held(one, at_ms)
    if one.is_raised:
        return Change.SEE
    if at_ms - one.seen_at_ms > UNKNOWN_MS:
        return Change.BEGIN
    return Change.RAISE if at_ms - one.began_at_ms >= lasts_ms else Change.SEE


def _not_held(one: Open, at_ms: int) -> Change:
    if not one.is_raised:
        return Change.FORGET
    return Change.END if at_ms - one.seen_at_ms >= SETTLE_MS else Change.NOTHING


@dataclass(frozen=True, slots=True)
class Look:
    """At a group, once: how many members it had, and whether every partition had an owner."""

    at_ms: int
    members: int
    is_whole: bool


def is_starting(looks: list[Look], since_ms: int, longest_ms: int) -> bool:
    """`looks`: all since `since_ms`, oldest first, the present one last. A start begins when there
    is a first member, or when members are looked at again after a while; it ends when every
    partition has an owner, and counts for `longest_ms` at most.
    """
    before_ms, began_ms = since_ms, None
    for n, look in enumerate(looks):
        is_first = n > 0 and look.members > 0 and looks[n - 1].members == 0
        if is_first or (look.members > 0 and look.at_ms - before_ms > UNKNOWN_MS):
            began_ms = look.at_ms
        if look.is_whole and look.members > 0:
            began_ms = None
        before_ms = look.at_ms
    return began_ms is not None and before_ms - began_ms < longest_ms


def looked_at_since(at_ms: int, limits: Limits) -> int:
    """From when on `is_starting` needs to know."""
    return at_ms - limits[STARTING.name] - 2 * UNKNOWN_MS
