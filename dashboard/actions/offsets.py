"""Setting the committed offset of a partition that stands still: what would come of it, and doing
it. Only to where events are kept and, where the partition keeps state, a state can be built.
"""

from dataclasses import dataclass
from enum import StrEnum

from assignment.errors import InvalidInput
from assignment.scripts.offsets import (
    EffectsIn,
    OffsetFacts,
    OffsetSet,
    offset_facts,
)
from assignment.scripts.offsets import set_offset as in_one_step
from assignment.types import START, Offset, Partition
from dashboard.actions.access import require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.live import events, offsets, push
from dashboard.live import groups as live_groups
from dashboard.live.scripts import run
from dashboard.models import Group, OffsetJump
from dashboard.records import audit
from dashboard.records.audit import By
from dashboard.records.queries.pages import narrowed

LARGE = 1_000  # events from which on the group's name is typed
JUMPS_SHOWN = 20


class To(StrEnum):
    OFFSET = "offset"
    TIME = "time"
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Wanted:
    """`offset` and `at_ms` with the kinds that need them. Raises InvalidInput."""

    to: To
    offset: Offset | None = None
    at_ms: int | None = None

    def __post_init__(self) -> None:
        if (self.to is To.OFFSET) != (self.offset is not None):
            raise InvalidInput("an offset belongs to 'offset', and nothing else")
        if (self.to is To.TIME) != (self.at_ms is not None):
            raise InvalidInput("a time belongs to 'time', and nothing else")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What would come of it. `missing`: what it would take there, and is not; `not_now`: why it
    cannot be done as things stand; both "" when it can. `events`: between the two offsets; None:
    nobody can tell.
    """

    partition: Partition
    before: Offset
    after: Offset
    fence: int
    events: int | None
    total: int
    facts: OffsetFacts
    effects: EffectsIn | None
    says: tuple[str, ...]
    missing: str = ""
    not_now: str = ""

    @property
    def refused(self) -> str:
        return self.missing or self.not_now

    @property
    def is_back(self) -> bool:
        return self.after < self.before

    @property
    def is_large(self) -> bool:
        return self.events is None or self.events >= LARGE

    @property
    def seen(self) -> str:
        """What is done is what was shown, or refused."""
        return f"{self.before} {self.after} {self.fence} {self.total}"


@audit.attempted("look at committed offset")
def outlook(group: Group, number: int, wanted: Wanted, by: By) -> Outlook:
    """Changes nothing. Raises Denied, StoreUnavailable."""
    require(by, Action.SET_OFFSETS, group)
    partition = Partition(group.stream, number)
    kept = events.look(partition, "-", "+", 1)
    place = _placed(partition, wanted, kept)
    facts = run(offset_facts(partition, place), group.name)
    after, missing = _resolved(wanted, place, kept, facts)
    low, high = sorted((facts.committed, after))
    between = offsets.events_between(partition, low, high)
    effects = _effects(group, facts)
    return Outlook(
        partition=partition,
        before=facts.committed,
        after=after,
        fence=facts.fence,
        events=between,
        total=_total(facts, after, between),
        facts=facts,
        effects=effects,
        says=_says(facts, after, between, effects),
        missing=missing or _why_never(facts, after, effects),
        not_now=_why_not_now(facts),
    )


def _placed(partition: Partition, wanted: Wanted, kept: events.Piece) -> Offset:
    """The offset that is meant, whether or not it can be set."""
    match wanted.to:
        case To.OFFSET:
            assert wanted.offset is not None
            return wanted.offset
        case To.EARLIEST:
            return kept.floor
        case To.LATEST:
            return _last(partition, "+") or kept.floor
        case To.TIME:
            assert wanted.at_ms is not None
            return _last(partition, f"({max(1, wanted.at_ms)}-0") or kept.floor


def _last(partition: Partition, high: str) -> Offset | None:
    found = events.look(partition, "-", high, 1, newest_first=True).entries
    return found[0].entry_id if found else None


def _resolved(
    wanted: Wanted, place: Offset, kept: events.Piece, facts: OffsetFacts
) -> tuple[Offset, str]:
    """The offset that would be set, and what is missing there."""
    if place < kept.floor:
        first = f"the oldest that is kept is {kept.first}" if kept.first else "none is kept"
        return place, f"events above {place} are missing: {first}"
    if kept.last is None or place > kept.last:
        return place, f"{place} is above the last event, {kept.last or 'of which there is none'}"
    if not facts.keeps_state or place >= facts.committed or place == START:
        return place, ""
    if facts.state_at is not None and facts.state_at >= kept.floor:
        return facts.state_at, ""
    return place, _no_state(place, kept, facts)


def _no_state(place: Offset, kept: events.Piece, facts: OffsetFacts) -> str:
    named = ", ".join(f"{one.offset} ({one.url})" for one in facts.snapshots) or "none"
    oldest = facts.state_oldest
    if oldest is None or oldest > place:
        can = f"at {oldest} at the earliest" if oldest else "nowhere below the committed offset"
        return f"no state can be built at {place}: it can {can}; snapshots recorded: {named}"
    return (
        f"state can be built at {facts.state_at}, but events above it are missing: the oldest that"
        f" is kept is {kept.first}; snapshots recorded: {named}"
    )


def _why_never(facts: OffsetFacts, after: Offset, effects: EffectsIn | None) -> str:
    if after == facts.committed:
        return f"{after} is the committed offset already"
    if facts.keeps_state and (end := facts.would_lose(after)) is not None:
        return (
            f"dead letters were replayed up to {end}: state would lose their effects, and not all"
            f" of their entries are read again from {after}"
        )
    if effects is EffectsIn.SQL_SINK and after > facts.committed:
        return (
            "its SQL sink keeps its own offset, which alone counts: a partition of which Redis is"
            " ahead halts. Move the sink's row instead"
        )
    if effects is None and facts.committed == START:
        return (
            "nothing of it was committed yet, and no consumer says whether it keeps state, which"
            " must be led there: start one first, which processes nothing while it is paused"
        )
    return ""


def _why_not_now(facts: OffsetFacts) -> str:
    if facts.state is None:
        return "it is not paused: pause the partition, or its group, first"
    if not facts.is_safe:
        return "its owner has not confirmed the pause yet: a batch may be in hand"
    return ""


def _total(facts: OffsetFacts, after: Offset, between: int | None) -> int:
    """Events applied up to there, from which lag is told."""
    if facts.keeps_state and after < facts.committed:
        return 0 if after == START else facts.state_total
    counted = between or 0
    return max(0, facts.total + (counted if after > facts.committed else -counted))


def _effects(group: Group, facts: OffsetFacts) -> EffectsIn | None:
    """None: no consumer says. What keeps state says so by what is kept."""
    if facts.keeps_state:
        return EffectsIn.STATE
    said = offsets.effects_of(group.name)
    return EffectsIn(said) if said in [*EffectsIn] else None


def _says(
    facts: OffsetFacts, after: Offset, between: int | None, effects: EffectsIn | None
) -> tuple[str, ...]:
    count = "events, how many nobody can tell," if between is None else f"{between} events"
    says = [FORWARD[effects] if after > facts.committed else BACK[effects]]
    if after > facts.committed:
        says.insert(0, f"The {count} up to {after} are skipped: nothing of them is processed.")
    elif effects is not EffectsIn.SQL_SINK:
        says.insert(0, f"The {count} above {after} are processed again.")
    if between is None:
        says.append("Lag is told wrongly by as many events as nobody can tell.")
    says.append(
        "Its owner gets a new fence: what it had in hand is not committed. It keeps the lock, and"
        " goes on when the pause ends."
    )
    return tuple(says)


BACK = {
    EffectsIn.STATE: "State goes back to what it was there: it is built from the snapshot before it"
    " and the changelog up to it, and what came after is dropped, also from learners and standbys."
    " Each event counts once in it.",
    EffectsIn.SQL_SINK: "Nothing is processed again: effects are exactly once by the sink's own"
    " offset. When its owner goes on, Redis is brought forward to the sink's offset at once. That"
    " mends a partition of which Redis is ahead of its sink, and repeats no effect.",
    EffectsIn.SINK: "Their effects are delivered to the sink again. Only a sink that keeps the"
    " idempotency key (partition, offset) with what it stored can tell, and only where a delivery"
    " ends at the same offset as before.",
    None: "What becomes of effects is not known, for no consumer says where they live: a SQL sink"
    " suppresses all of them, any other is given them again.",
}
FORWARD = {
    EffectsIn.STATE: "State stays as it is: it never counts the skipped events.",
    EffectsIn.SQL_SINK: "Its SQL sink keeps its own offset: the partition would halt.",
    EffectsIn.SINK: "The sink never gets their effects.",
    None: "No consumer says where effects live: a SQL sink, which keeps its own offset, halts the"
    " partition; any other never gets the effects.",
}


@audit.attempted("set committed offset")
def set_offset(group: Group, number: int, wanted: Wanted, seen: str, by: By) -> OffsetJump:
    """Does what an outlook showed. Raises Denied, Refused and StoreUnavailable: then nothing was
    changed, unless Redis did not answer in time.
    """
    found = outlook(group, number, wanted, by)
    if found.refused:
        raise Refused(f"{found.partition}: {found.refused}")
    if found.seen != seen:
        raise Refused(f"{found.partition} is not as it was shown: look at what would come of it")
    offsets.hold(found.partition, found.after)
    if events.look(found.partition, "-", "+", 1).floor > found.after:
        raise Refused(f"{found.partition}: events above {found.after} were trimmed just now")
    with audit.atomic():  # undone when Redis refuses
        jump = OffsetJump.objects.create(
            group=group,
            at_ms=live_groups.redis_now_ms(group.name),
            number=number,
            fence=found.fence + 1,
            before=str(found.before),
            after=str(found.after),
            events=found.events,
            actor=by.actor,
            reason=by.reason[: audit.REASON_MAX],
        )
        audit.record(
            by,
            "set committed offset",
            group,
            object=str(found.partition),
            before={"offset": jump.before, "fence": str(found.fence)},
            after={"offset": jump.after, "events": jump.events},
        )
        call = in_one_step(
            found.partition,
            found.facts,
            found.after,
            found.total,
            state=found.effects is EffectsIn.STATE,
        )
        answer = run(call, group.name)
        if answer.result is not OffsetSet.DONE:
            raise Refused(f"{found.partition}: {WHY[answer.result]}")
    push.push(group.name, "ownership")
    return jump


WHY = {
    OffsetSet.RUNNING: "it is not paused any more, or its owner has not confirmed the pause",
    OffsetSet.MOVED: "it is not as it was shown: look at what would come of it again",
    OffsetSet.NO_STATE: "no state can be built there any more",
    OffsetSet.REPLAYED: "dead letters were replayed meanwhile, whose effects state would lose",
}


def jumps(
    group: Group, number: int | None, most: int = JUMPS_SHOWN, *, before: int | None = None
) -> list[OffsetJump]:
    """The newest first. `number`: of the partition, None: of all; `before`: a row's key."""
    rows = narrowed(group.offset_jumps.order_by("-pk"), number=number, pk__lt=before)
    return list(rows[:most])
