"""Dead letters that wait to be replayed: what a plan is told, and how its batch binds them.

A batch that replays goes from the committed offset to the very next id, which must be below the
last one and no entry's: nothing can be in that range, ever. Its letters and its end are bound
before their effects are stored, and the commit that reaches that end removes them (lua/bind.lua).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import msgspec

from assignment.scripts.dead_letters import DeadLetter
from assignment.scripts.values import Arguments, Call, fence_text, text_of
from assignment.types import Offset, Range

AT_ONCE_MAX = 100  # letters of a batch: each may be an entry of some hundred events


class Ask(msgspec.Struct, frozen=True):
    """What one person asked for at once; `ids` of letters."""

    actor: str
    ids: tuple[str, ...]


class Waiting(msgspec.Struct, frozen=True):
    """As it lies in the hash `replays`. `crashes`: in a row, with letters in hand; `width`: so many
    at once since; 0: not narrowed down. `over`: to be narrowed down before the next batch.
    """

    asks: tuple[Ask, ...]
    crashes: int = 0
    width: int = 0
    over: bool = False


@dataclass(frozen=True, slots=True)
class WaitingLetter:
    """`actor`: who asked for it."""

    at: Offset
    actor: str


@dataclass(frozen=True, slots=True)
class Replays:
    """What the next batch of a partition that replays has; `crashes` of those before, in a row.
    `is_over`: it has none before `narrow`.
    """

    letters: tuple[WaitingLetter, ...]
    crashes: int = 0
    is_over: bool = False


@lru_cache(1_024)  # told anew by each plan until they were replayed
def read_replays(text: str, bound: str) -> Replays | None:
    """None for "". What is `bound` is replayed as it is, whatever was asked since."""
    if not text:
        return None
    waiting = msgspec.json.decode(text, type=Waiting)
    letters = [WaitingLetter(Offset.parse(i), ask.actor) for ask in waiting.asks for i in ask.ids]
    if bound:
        ids = {Offset.parse(one) for one in bound.split(" ")}
        letters = [one for one in letters if one.at in ids]
    else:
        letters = letters[: waiting.width or AT_ONCE_MAX]
    return Replays(tuple(letters), waiting.crashes, waiting.over)


class Bound(StrEnum):
    DONE = "done"
    MOVED = "moved"  # it is to be planned anew
    FENCED = "fenced"


def bind(
    one: Range, letters: Sequence[Offset], lowest: Offset, unread: Sequence[DeadLetter]
) -> Call[Bound]:
    """What the commit of that range does with these letters; asked again it answers the same.
    `lowest`: of their entries. `unread`: what of them cannot be read again.
    """
    ids = " ".join(map(str, letters))
    arguments: Arguments = [str(one.partition), fence_text(one.fence), str(one.from_offset)]
    arguments += [str(one.to_offset), one.replication_id, str(lowest), ids]
    for letter in unread:
        arguments += letter.fields
    return Call("bind", arguments, lambda raw: Bound(text_of(raw)))


def narrow(one: Range, letters: int) -> Call[Bound]:
    """Of `letters` that were planned from the range's beginning and ended consumers: fewer at once,
    or the last one is given up. Its effects must be nowhere: a sink stands at that offset.
    """
    arguments: Arguments = [str(one.partition), fence_text(one.fence)]
    arguments += [str(one.from_offset), str(letters)]
    return Call("narrow", arguments, lambda raw: Bound(text_of(raw)))
