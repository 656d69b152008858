"""Dead letters: looked at, by who may look at events, discarded, and asked to be replayed inside
the group; all of that is audited.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assignment.errors import InvalidInput
from assignment.scripts.dead_letters import Bounds, Discard, KeptLetter, LetterId, Replay
from assignment.types import Partition
from dashboard.actions.access import require
from dashboard.actions.roles import Action
from dashboard.live import dead_letters as live
from dashboard.live.decoded import letter_text
from dashboard.models import Group
from dashboard.records import audit
from dashboard.records.audit import By

SHOWN, SHOWN_MAX = 20, 50  # letters of one look
AT_ONCE_MAX = 500  # discarded, or asked to be replayed: all of their ids stand in the audit
THROUGH_MAX = 8 * 2**20  # bytes that one look, or one search of what is meant, reads
RAW_MAX = 65_536  # as much as a consumer keeps of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """`reason`: what theirs contains, in any case of letters. `until_ms`: none kept later."""

    number: int | None = None  # of the partition; None: any
    reason: str = ""
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Letter:
    """`text`: of its raw bytes; None where it may have fields that are masked."""

    kept: KeptLetter
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """`counts`: letters of the partitions that were asked for, whatever their reason. `next`:
    below which the next look goes on. `at_ms`: when it was so, by Redis' clock.
    """

    at_ms: int
    counts: dict[Partition, int]
    letters: tuple[Letter, ...]
    masked: tuple[str, ...]
    next: LetterId | None


@dataclass(frozen=True, slots=True)
class Discarded:
    """`waiting`: so many wait to be replayed, and stay. `more`: there may be others that were
    meant: ask again.
    """

    letters: list[LetterId]
    waiting: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """`letters`: that wait from now on. `others`: how many were not asked for, by why. `more`:
    there may be others that were meant: ask again when these were replayed.
    """

    letters: list[LetterId]
    others: Mapping[Replay, int]
    more: bool = False


@audit.attempted("look at dead letters")
def look(
    group: Group, which: Which, by: By, *, below: LetterId | None = None, most: int = SHOWN
) -> Look:
    """Partition by partition, of each the newest first. Raises Denied, InvalidInput and
    StoreUnavailable.
    """
    require(by, Action.LOOK_AT_EVENTS, group)
    partitions = _partitions(group, which)
    counts = live.counts(group.name, partitions)
    bounds = Bounds(letters=most, through=THROUGH_MAX, raw=RAW_MAX)
    left = [p for p in counts if below is None or p.number >= below.number]
    is_within = below is not None and bool(left) and left[0].number == below.number
    found = live.look(
        group.name,
        left,
        bounds,
        reason=which.reason,
        below=below.at if below is not None and is_within else None,
        until_ms=which.until_ms,
    )
    masked = frozenset(name.lower() for name in group.values.masked_fields)
    audit.record(
        by,
        "look at dead letters",
        group,
        object=_object(group, which),
        after={"letters": _told(group, [one.name for one in found.letters])},
    )
    return Look(
        at_ms=found.at_ms,
        counts=counts,
        letters=tuple(Letter(x, letter_text(x.raw, x.size, masked)) for x in found.letters),
        masked=tuple(sorted(masked)),
        next=found.next,
    )


@audit.attempted("discard dead letters")
def discard(group: Group, letters: Sequence[LetterId], by: By) -> Discarded:
    """For good. Those that are gone already are passed over. Raises Denied, InvalidInput and
    StoreUnavailable.
    """
    require(by, Action.DISCARD_LETTERS, group)
    return _discarded(group, _chosen(group, letters), by, Which())


@audit.attempted("discard dead letters")
def discard_found(group: Group, which: Which, by: By) -> Discarded:
    """All of them, but no more than AT_ONCE_MAX. As `discard`."""
    require(by, Action.DISCARD_LETTERS, group)
    names, more = _found(group, which)
    return replace(_discarded(group, names, by, which), more=more)


@audit.attempted("replay dead letters")
def replay(group: Group, letters: Sequence[LetterId], by: By) -> Asked:
    """Their owners' consumers apply them with one of the next batches. Where Redis did not answer
    in time, asking again makes up for what was not done. Raises Denied, InvalidInput and
    StoreUnavailable.
    """
    require(by, Action.REPLAY_LETTERS, group)
    return _asked(group, _chosen(group, letters), by, Which())


@audit.attempted("replay dead letters")
def replay_found(group: Group, which: Which, by: By) -> Asked:
    """All of them, but no more than AT_ONCE_MAX. As `replay`."""
    require(by, Action.REPLAY_LETTERS, group)
    names, more = _found(group, which)
    return replace(_asked(group, names, by, which), more=more)


def _chosen(group: Group, letters: Sequence[LetterId]) -> list[LetterId]:
    if not letters:
        raise InvalidInput("no dead letter is chosen")
    if len(letters) > AT_ONCE_MAX:
        raise InvalidInput(f"{len(letters)} dead letters are chosen: at most {AT_ONCE_MAX} at once")
    for one in letters:
        _demand(group, one.number)
    return sorted(set(letters))


def _found(group: Group, which: Which) -> tuple[list[LetterId], bool]:
    """And whether there may be more."""
    partitions = list(live.counts(group.name, _partitions(group, which)))
    bounds = Bounds(letters=AT_ONCE_MAX, through=THROUGH_MAX, raw=0)
    found = live.look(group.name, partitions, bounds, reason=which.reason, until_ms=which.until_ms)
    return [one.name for one in found.letters], found.next is not None


def _discarded(group: Group, letters: Sequence[LetterId], by: By, which: Which) -> Discarded:
    """On record by their ids; nothing is where none was there any more."""
    with audit.atomic():
        answers = live.discard(group.name, group.stream, letters)
        gone = [one for one, what in answers.items() if what is Discard.DONE]
        if gone:
            audit.record(
                by,
                "discard dead letters",
                group,
                object=_object(group, which),
                before={"letters": _told(group, gone)},
            )
    return Discarded(gone, waiting=list(answers.values()).count(Discard.WAITS))


def _asked(group: Group, letters: Sequence[LetterId], by: By, which: Which) -> Asked:
    """On record before their streams have room for them, which asking again makes too."""
    with audit.atomic():
        answers = live.replay(group.name, group.stream, letters, by.actor)
        asked = [one for one, what in answers.items() if what is Replay.ASKED]
        if asked:
            audit.record(
                by,
                "replay dead letters",
                group,
                object=_object(group, which),
                after={"letters": _told(group, asked)},
            )
    wait = [one for one, what in answers.items() if what in (Replay.ASKED, Replay.WAITS)]
    live.make_room(Counter(Partition(group.stream, one.number) for one in wait))
    others: Counter[Replay] = Counter(answers.values())
    del others[Replay.ASKED]
    return Asked(asked, others)


def _partitions(group: Group, which: Which) -> Sequence[Partition]:
    if which.number is None:
        return group.values.all_partitions()
    _demand(group, which.number)
    return [Partition(group.stream, which.number)]


def _demand(group: Group, number: int) -> None:
    if number >= group.partitions:
        most = group.partitions - 1
        raise InvalidInput(f"there is no partition {number}: group {group.name} has 0 to {most}")


def _object(group: Group, which: Which) -> str:
    return "" if which.number is None else str(Partition(group.stream, which.number))


def _told(group: Group, letters: Sequence[LetterId]) -> dict[str, list[str]]:
    """Their ids, by partition."""
    found: dict[str, list[str]] = {}
    for one in letters:
        found.setdefault(str(Partition(group.stream, one.number)), []).append(str(one.at))
    return found
