"""The work that is measured: who owned what, who is there now, and how good a result is.

Members are numbered in the order of their ids. A member that joins comes last; one that leaves
keeps its number, so owners before and after can be compared by whoever reads them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Self

import numpy as np
import numpy.typing as npt

from assignment.errors import InvalidInput
from assignment.metrics import max_minus_min, most_kept
from assignment.strategies import sticky
from assignment.strategies.dense import NOBODY, Owners

EVENTS = ("fresh", "leave", "join", "leave10")
PARTITIONS_MAX = 20_000_000  # four times what the chart shows; arrays of 80 MB
MEMBERS_MAX = 1_000_000
SEED = 20_130_101
MIXED_TOPICS, MIXED_SIZE, MIXED_MEMBERS = 50, 200, 200
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Work:
    """previous [P]: owner before, by number; live: numbers of those who are there now, ascending;
    starts [T + 1] and subscribed [T, members live] as `sticky.owners_of` takes them.
    """

    previous: Owners
    live: Numbers
    starts: Numbers
    subscribed: Mask

    @cached_property
    def given(self) -> Owners:
        """`previous` as the core takes it: positions in `live`; who left owns nothing."""
        position = np.full(max(self.live.max(initial=0), self.previous.max()) + 2, NOBODY)
        position[self.live] = np.arange(len(self.live))
        return position[self.previous].astype(np.int32)  # NOBODY finds the last one: NOBODY

    def run(self) -> Owners:
        """What is timed."""
        return sticky.owners_of(self.given, self.starts, self.subscribed)

    def numbered(self, result: Owners) -> Owners:
        """Owners by number, as `previous` has them."""
        return np.append(self.live, NOBODY)[result].astype(np.int32)


def uniform(partitions: int, members: int, event: str) -> Work:
    """One topic that everybody reads; before the event it is even, in random order."""
    previous = np.full(partitions, NOBODY, dtype=np.int32)
    if event != "fresh":
        even = np.arange(partitions, dtype=np.int32) % members
        previous = np.random.default_rng(SEED).permutation(even)
    live = after(event, members)
    return Work(
        previous=previous,
        live=live,
        starts=np.array([0, partitions]),
        subscribed=np.ones((1, len(live)), dtype=np.bool_),
    )


def after(event: str, members: int) -> Numbers:
    """Numbers of those who are there after the event."""
    everybody = np.arange(members + (event == "join"))
    if event == "leave":
        return np.delete(everybody, members // 2)
    return np.delete(everybody, np.s_[::10]) if event == "leave10" else everybody


@cache
def mixed_fresh(size: int = MIXED_SIZE) -> Work:
    """Each member reads half of the topics, chosen at random; nobody owns anything.

    size: partitions of each topic.
    """
    random = np.random.default_rng(SEED)
    subscribed = np.zeros((MIXED_TOPICS, MIXED_MEMBERS), dtype=np.bool_)
    for member in range(MIXED_MEMBERS):
        half = random.choice(MIXED_TOPICS, MIXED_TOPICS // 2, replace=False)
        subscribed[half, member] = True
    return Work(
        previous=np.full(MIXED_TOPICS * size, NOBODY, dtype=np.int32),
        live=np.arange(MIXED_MEMBERS),
        starts=np.arange(MIXED_TOPICS + 1) * size,
        subscribed=subscribed,
    )


def mixed_leave(size: int = MIXED_SIZE) -> Work:
    """The same after that, without one of them."""
    fresh, live = mixed_fresh(size), after("leave", MIXED_MEMBERS)
    return replace(
        fresh, previous=fresh.run(), live=live, subscribed=fresh.subscribed[:, live].copy()
    )


ROWS: Mapping[str, Callable[[], Work]] = {
    "w1_fresh_1k": partial(uniform, 1_000, 100, "fresh"),
    "w2_fresh_100k": partial(uniform, 100_000, 1_000, "fresh"),
    "w3_fresh_1m": partial(uniform, 1_000_000, 2_000, "fresh"),
    "w4_leave_1m": partial(uniform, 1_000_000, 2_000, "leave"),
    "w5_join_1m": partial(uniform, 1_000_000, 2_000, "join"),
    "w6_leave10_1m": partial(uniform, 1_000_000, 2_000, "leave10"),
    "w7_mixed_fresh": mixed_fresh,
    "w7_mixed_leave": mixed_leave,
}


def case(words: Sequence[str]) -> tuple[str, Work]:
    """PARTITIONS MEMBERS EVENT, as typed, and what to call it. InvalidInput names what is wrong."""
    if len(words) != 3:
        raise InvalidInput(f"a case is PARTITIONS MEMBERS EVENT, not {' '.join(words)!r}")
    partitions = _count("partitions", words[0], PARTITIONS_MAX)
    members = _count("members", words[1], MEMBERS_MAX)
    if words[2] not in EVENTS:
        raise InvalidInput(f"event {words[2]!r} is not one of {', '.join(EVENTS)}")
    return f"{words[2]}_{partitions}_{members}", uniform(partitions, members, words[2])


def _count(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= most):
        raise InvalidInput(f"{name} {text!r} is not a whole number from 1 to {most}")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class Quality:
    """moves: partitions that had an owner and have another now. least_moves: no balanced result
    has fewer; under unequal subscriptions it counts only what those who left owned, which is a
    bound that may be too low. most_even: no chain of moves makes the loads more even.
    """

    moves: int
    least_moves: int
    max_minus_min: int | None
    most_even: bool

    @classmethod
    def of(cls, work: Work, result: Owners) -> Self:
        owned = work.previous != NOBODY
        loads = np.bincount(result[result != NOBODY], minlength=len(work.live))
        return cls(
            moves=int((owned & (work.previous != work.numbered(result))).sum()),
            least_moves=int(owned.sum()) - _most_kept(work),
            max_minus_min=max_minus_min(loads.tolist()),
            most_even=is_most_even(work, result),
        )


def _most_kept(work: Work) -> int:
    held = np.bincount(work.given[work.given != NOBODY], minlength=len(work.live))
    if work.subscribed.all():
        return most_kept(held.tolist(), len(work.previous))
    return int(held.sum())


def is_most_even(work: Work, result: Owners) -> bool:
    """By search: nobody can give, along any chain, to one that has at least two fewer."""
    topic = np.repeat(np.arange(len(work.subscribed)), np.diff(work.starts))
    owned = result != NOBODY
    holds = np.zeros(work.subscribed.shape, dtype=np.bool_)
    holds[topic[owned], result[owned]] = True
    loads = np.bincount(result[owned], minlength=len(work.live))
    return all(
        loads[_reached(holds, work.subscribed, loads >= load)].min() > load - 2
        for load in np.unique(loads[loads > 1]).tolist()
    )


def _reached(holds: Mask, reads: Mask, members: Mask) -> Mask:
    while True:
        more = members | reads[holds[:, members].any(axis=1)].any(axis=0)
        if (more == members).all():
            return members
        members = more
