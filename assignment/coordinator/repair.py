"""What is damaged of a group's records in Redis, and how it is mended.

Pure: raw values in, findings out. What members say is forgotten, for they say it anew; what nobody
can say again is built anew from the database, as after a wipe, with offsets and snapshots kept.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from assignment import wire
from assignment.bounds import MOMENT_MAX, moment_of
from assignment.coordinator.incarnation import CLAIMED_AHEAD_MAX, CLAIMED_MAX, is_step
from assignment.errors import InvalidInput
from assignment.plausible import COUNTED_MAX, counted, is_committed, is_reached
from assignment.scripts.agent_side import read_snapshots
from assignment.scripts.group_read import read_member, read_meta
from assignment.scripts.reports import read_report
from assignment.scripts.rows import UNREADABLE, Applied, Since
from assignment.scripts.rows import why_unreadable as why_of
from assignment.scripts.values import FENCE_MAX, INCARNATION_MAX
from assignment.types import INCARNATION_STEP, START, Offset, Partition

KINDS = {
    **dict.fromkeys(("meta", "members", "reports", "asked", "target", "grants"), "hash"),
    **dict.fromkeys(("offsets", "applied", "snapshots", "since", "awaited"), "hash"),
    "beats": "zset",
}
COORDINATION = (
    "meta",
    "members",
    "beats",
    "reports",
    "asked",
    "target",
    "grants",
    "since",
    "awaited",
)


class Mend(StrEnum):
    FORGET = "forget"  # it is said or made anew
    EVICT = "evict"  # the member goes; its agent joins anew
    MIRROR = "mirror"  # as the database has it, some seconds old
    CORRECT = "correct"  # the database's own row
    REBUILD = "rebuild"  # coordination as after a wipe, from the database
    RENUMBER = "renumber"  # a lower incarnation, in Redis and database; no agent may run


class Finding(NamedTuple):
    """`name`: of the row in the key; "" for all of it."""

    mend: Mend
    key: str
    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A group's keys as they are, by their short names."""

    kinds: Mapping[str, str]  # Redis' TYPE, of those that are there
    rows: Mapping[str, Mapping[str, bytes]]  # of hashes
    beats: Mapping[str, float] = field(default_factory=dict)
    locks: Mapping[str, bytes] = field(default_factory=dict)  # partition -> "member/fence"
    last: Mapping[str, Offset] = field(default_factory=dict)  # the highest id of each stream
    now_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the database has of the group. `times`: "table column" -> how many are ahead of Redis'
    clock or before 1970. `mirror`: partition -> offset.
    """

    incarnation: int = 0
    event_seq: int = 0
    target_epochs: Collection[int] = ()  # those above COUNTED_MAX
    mirror: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, int] = field(default_factory=dict)


NOTHING_KEPT = Kept()


def findings(
    stored: Stored, incarnations: Collection[int], kept: Kept = NOTHING_KEPT
) -> tuple[Finding, ...]:
    """`incarnations`: all under which the database has records of the group."""
    return tuple(_findings(stored, incarnations, kept))


def _findings(stored: Stored, incarnations: Collection[int], kept: Kept) -> Iterator[Finding]:
    for key, kind in stored.kinds.items():
        if kind != KINDS[key]:
            mend = Mend.REBUILD if key in COORDINATION else Mend.MIRROR
            yield Finding(mend, key, "", f"it is a {kind}, not a {KINDS[key]}")
    yield from _unreadable(stored)
    yield from _beats(stored)
    yield from _meta(stored)
    yield from _impossible(stored)
    yield from _kept(stored, kept)
    known = {*incarnations, *found_incarnations(stored)}
    top = believable(known, kept.incarnation)
    for number in sorted(n for n in known if n > top):
        why = f"incarnation {number} is more than {CLAIMED_AHEAD_MAX} above {top}"
        yield Finding(Mend.RENUMBER, "meta", "incarnation", why)


OF_MEMBERS = ("reports", "asked")  # the target may name members that come back
READERS: Mapping[str, tuple[Mend, Callable[[str, bytes], Any]]] = {
    "members": (Mend.EVICT, read_member),
    "reports": (Mend.FORGET, lambda _, raw: read_report(raw)),
    "asked": (Mend.FORGET, lambda _, raw: moment_of(raw)),
    "target": (Mend.FORGET, lambda _, raw: wire.parse_target(raw.decode())),
    "grants": (Mend.REBUILD, lambda name, raw: (Partition.parse(name), _fence(raw))),
    "locks": (Mend.FORGET, lambda _, raw: wire.parse_lock(raw.decode())),
    "offsets": (Mend.MIRROR, lambda name, raw: (Partition.parse(name), Offset.parse(raw.decode()))),
    "applied": (Mend.MIRROR, lambda name, raw: (Partition.parse(name), Applied.parse(raw))),
    "snapshots": (Mend.MIRROR, lambda name, raw: (Partition.parse(name), read_snapshots(raw))),
    "awaited": (Mend.FORGET, lambda name, raw: (Partition.parse(name), raw.decode())),
    "since": (Mend.FORGET, lambda name, raw: (Partition.parse(name), Since.parse(raw))),
}


def _unreadable(stored: Stored) -> Iterator[Finding]:
    rows = {**stored.rows, "locks": stored.locks}
    members = rows.get("members", {})
    for key, (mend, read) in READERS.items():
        for name, raw in rows.get(key, {}).items():
            try:
                name.encode()  # bytes that are no text stand as surrogates in it
                read(name, raw)
                if key in OF_MEMBERS and name not in members:
                    raise InvalidInput("there is no such member")
            except UNREADABLE as error:
                yield Finding(mend, key, name, why_of(error))


def _beats(stored: Stored) -> Iterator[Finding]:
    members = stored.rows.get("members", {})
    for member, beat in stored.beats.items():
        if not 0 <= beat <= MOMENT_MAX:
            yield Finding(Mend.EVICT, "beats", member, f"{beat:g} is no time")
        elif member not in members:
            yield Finding(Mend.EVICT, "beats", member, "there is no such member")


def _meta(stored: Stored) -> Iterator[Finding]:
    try:
        meta = read_meta(dict(stored.rows.get("meta", {})))
    except UNREADABLE as error:
        yield Finding(Mend.REBUILD, "meta", "", why_of(error))
        return
    for name in ("group_epoch", "target_epoch", "event_seq"):
        if not counted(getattr(meta, name)) and getattr(meta, name):
            yield Finding(Mend.REBUILD, "meta", name, _beyond(getattr(meta, name)))


def _beyond(number: int) -> str:
    return f"{number} is above {COUNTED_MAX}, to which nobody counts"


def _impossible(stored: Stored) -> Iterator[Finding]:
    """What can be read of the group's rows, and cannot be."""
    for name, raw in stored.rows.get("offsets", {}).items():
        if why := _why_not_committed(stored, name, raw.decode(errors="replace")):
            yield Finding(Mend.MIRROR, "offsets", name, why)
    for member, raw in stored.rows.get("members", {}).items():
        try:
            joined_at_ms = read_member(member, raw).joined_at_ms
        except UNREADABLE:
            continue  # found as that
        if not is_reached(joined_at_ms, stored.now_ms):
            yield Finding(Mend.EVICT, "members", member, f"it joined at {joined_at_ms}")


def _why_not_committed(stored: Stored, partition: str, text: str) -> str:
    """ "": it may be, or cannot be read."""
    try:
        offset = Offset.parse(text)
    except InvalidInput:
        return ""
    last = stored.last.get(partition, START)
    if is_committed(offset, last, stored.now_ms):
        return ""
    return f"{text} is above {last}, the last id of its stream"


def _kept(stored: Stored, kept: Kept) -> Iterator[Finding]:
    """What the database has, which nothing in Redis sets right."""
    if not counted(kept.event_seq) and kept.event_seq:
        yield Finding(Mend.CORRECT, "history", "event_seq", _beyond(kept.event_seq))
    for epoch in sorted(kept.target_epochs):
        yield Finding(Mend.CORRECT, "epochs", str(epoch), _beyond(epoch))
    for partition, text in kept.mirror.items():
        try:
            Offset.parse(text)
            why = _why_not_committed(stored, partition, text)
        except InvalidInput as error:
            why = str(error)
        if why:
            yield Finding(Mend.CORRECT, "mirror", partition, why)
    for column, number in kept.times.items():
        why = f"{number} are before 1970 or more than a day ahead of Redis' clock"
        yield Finding(Mend.CORRECT, "times", column, why)


def _fence(raw: bytes) -> int:
    fence = wire.parse_grant(raw.decode()).fence
    if not 1 <= fence <= FENCE_MAX:
        raise ValueError(f"fence {fence} is not within 1 and {FENCE_MAX}")
    return fence


# --- incarnations ---------------------------------------------------------------------------------


def found_incarnations(stored: Stored) -> set[int]:
    """Under which Redis has anything, as far as it can be read."""
    found: set[int] = set()
    texts = [stored.rows.get("meta", {}).get("incarnation", b"0")]
    found |= {int(text) for text in texts if text.isdigit() and len(text) <= 16}
    fences = [fence_of(raw) for raw in stored.rows.get("grants", {}).values()]
    fences += [fence_of(raw.rpartition(b"/")[2]) for raw in stored.locks.values()]
    for raw in stored.rows.get("snapshots", {}).values():
        try:
            fences += [record.fence for record in read_snapshots(raw)]
        except UNREADABLE:
            continue
    return found | {fence // INCARNATION_STEP for fence in fences}


def fence_of(raw: bytes) -> int:
    """That it begins with; 0: none."""
    text = raw.partition(b" ")[0]
    return int(text) if text.isdigit() and len(text) <= 16 else 0


def believable(known: Iterable[int], accepted: int = 0) -> int:
    """The highest that was reached by steps as they are made: by one, or as far as a member is
    believed. `accepted`: the database's own, which a person may have set, if claims may get there.
    """
    top = accepted if accepted <= CLAIMED_MAX else 0
    for number in sorted(known):
        if not is_step(number, top) or number >= INCARNATION_MAX:
            return top
        top = max(top, number)
    return top


def renumbered(known: Collection[int], accepted: int = 0) -> dict[int, int]:
    """Of those that nobody can have reached, in their order: what they are from now on."""
    top = believable(known, accepted)
    beyond = sorted(number for number in set(known) if number > top)
    return {number: top + n for n, number in enumerate(beyond, 1)}


def renumbered_fence(fence: int, numbers: Mapping[int, int]) -> int:
    incarnation, counter = divmod(fence, INCARNATION_STEP)
    return numbers.get(incarnation, incarnation) * INCARNATION_STEP + counter
