"""An event that ends consumers: who is under suspicion, what halts, and how a person skips it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from assignment.scripts.values import Arguments, Call, fence_text, number_of, text_of
from assignment.types import Offset, Partition, Range

SUSPECT_CRASHES = 3  # in a row with a partition in hand; before, it may have been any other
WHY_MAX = 160
REASON_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """The event that ends its consumers lies above the committed offset and not above `to`."""

    crashes: int
    to: Offset
    width: int  # entries at once at most; 0: not narrowed down yet
    halted: bool  # the entry `to` crashed alone
    why: str = ""

    @property
    def is_alone(self) -> bool:
        return self.crashes >= SUSPECT_CRASHES


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A person lets the partition go on behind `entry`."""

    entry: Offset
    actor: str
    reason: str


def crash(why: str, entries_alone: int, in_hand: Iterable[Range], letters: int = 0) -> Call[int]:
    """For how many partitions it counts. `letters`: that the batch replayed."""
    arguments: Arguments = [why[:WHY_MAX], str(entries_alone), str(letters)]
    for one in in_hand:
        arguments += [str(one.partition), fence_text(one.fence)]
        arguments += [str(one.from_offset), str(one.to_offset)]
    return Call("crash", arguments, number_of)


def read_suspect(text: str) -> Suspect | None:
    """None for ""."""
    if not text:
        return None
    crashes, to, width, halted, why = text.split(" ", 4)
    return Suspect(
        crashes=int(crashes),
        to=Offset.parse(to),
        width=int(width),
        halted=halted == "1",
        why=why,
    )


def skip(partition: Partition, what: Skip) -> Call[bool]:
    """False: the partition is past that entry already."""
    who = {"actor": what.actor, "reason": what.reason[:REASON_MAX]}
    arguments: Arguments = [str(partition), str(what.entry), json.dumps(who)]
    return Call("skip", arguments, lambda raw: text_of(raw[0]) == "done")


def read_skip(text: str) -> Skip | None:
    """None for ""."""
    if not text:
        return None
    entry, _, who = text.partition(" ")
    said = json.loads(who)
    return Skip(entry=Offset.parse(entry), actor=said["actor"], reason=said["reason"])
