"""What strategies work on inside: the dense arrays, and what they say nothing of.

A part of a problem is a problem too: fewer members, fewer partitions, the same topics, and each
partition still knows its number (`zone_nearby` deals zone by zone).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from assignment.errors import InvalidInput
from assignment.strategies.dense import NOBODY, Dense, Owners
from assignment.strategies.given import StrategyInput
from assignment.strategies.parameters import Span
from assignment.types import Member

Positions = npt.NDArray[np.int64]  # indexes of partitions, or of members


class Topic(NamedTuple):
    """The one at `place` among all: its partitions [start, end), and who reads it, by id."""

    place: int
    start: int
    end: int
    readers: Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """members: by id, as in `dense`; numbers [P]: number of each partition within its topic;
    sizes [T]: how many partitions each topic has, also where this is a part.
    """

    dense: Dense
    members: tuple[Member, ...]
    numbers: Positions
    sizes: Positions

    @classmethod
    def of(cls, given: StrategyInput) -> Self:
        """InvalidInput names the first member that subscribes to a topic that is not there."""
        dense = Dense.of(given, unknown_topics=False)
        sizes = np.diff(dense.starts)
        return cls(
            dense=dense,
            members=tuple(sorted(given.members, key=lambda m: m.member_id)),
            numbers=np.arange(dense.partitions) - np.repeat(dense.starts[:-1], sizes),
            sizes=sizes,
        )

    @property
    def topic_of(self) -> Positions:
        """[P] index of each partition's topic."""
        return np.repeat(np.arange(len(self.dense.topics)), np.diff(self.dense.starts))

    @property
    def is_read(self) -> npt.NDArray[np.bool_]:
        """[P] whether anybody subscribes to its topic."""
        return read_at_all(self.dense.subscribed)[self.topic_of]

    def nobody(self) -> Owners:
        return np.full(self.dense.partitions, NOBODY, dtype=np.int32)

    def topics(self) -> Iterator[Topic]:
        """Those with partitions and readers."""
        bounds = self.dense.starts.tolist()
        for place, (start, end) in enumerate(pairwise(bounds)):
            readers = np.flatnonzero(self.dense.subscribed[place])
            if end > start and len(readers):
                yield Topic(place, start, end, readers)

    def part(self, members: Positions, partitions: Positions) -> Self:
        """Only these, both ascending. Owners of the part index into `members`."""
        dense, topics = self.dense, len(self.dense.topics)
        counts = np.bincount(self.topic_of[partitions], minlength=topics)
        new_index = np.full(len(self.members) + 1, NOBODY, dtype=np.int32)  # last: of NOBODY
        new_index[members] = np.arange(len(members))
        return type(self)(
            dense=Dense(
                member_ids=tuple(dense.member_ids[m] for m in members.tolist()),
                topics=dense.topics,
                starts=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
                subscribed=dense.subscribed[:, members],
                previous=new_index[dense.previous[partitions]],
            ),
            members=tuple(self.members[m] for m in members.tolist()),
            numbers=self.numbers[partitions],
            sizes=self.sizes,
        )

    # --- partitions as people name them ---

    def slices(self, spans: Iterable[Span]) -> list[slice]:
        """Where each span is, as far as it is there and in this part; empty where it is not."""
        places, bounds = self._places(), self.dense.starts.tolist()
        is_whole = len(self.numbers) == self.sizes.sum()
        found = []
        for span in spans:
            place = self._place(span, places)
            start, end = (0, 0) if place is None else bounds[place : place + 2]
            first, last = span.first, span.last + 1
            if not is_whole:
                first, last = np.searchsorted(self.numbers[start:end], (first, last)).tolist()
            found.append(slice(min(start + first, end), min(start + last, end)))
        return found

    def missing(self, spans: Iterable[Span]) -> list[str]:
        """The spans, as far as they are not there."""
        places, sizes = self._places(), self.sizes.tolist()
        found = []
        for span in spans:
            place = self._place(span, places)
            size = 0 if place is None else sizes[place]
            if span.last >= size:
                found.append(str(span._replace(first=max(span.first, size))))
        return found

    def named(self, partitions: Positions) -> str:
        """Ascending positions as ranges: flights:0-3, flights:7."""
        if not len(partitions):
            return ""
        topics, numbers = self.topic_of[partitions], self.numbers[partitions]
        breaks = np.flatnonzero((np.diff(numbers) != 1) | (np.diff(topics) != 0)) + 1
        runs = np.split(np.arange(len(partitions)), breaks)
        return ", ".join(
            str(Span(self.dense.topics[topics[r[0]]], int(numbers[r[0]]), int(numbers[r[-1]])))
            for r in runs
        )

    def _places(self) -> dict[str, int]:
        return {topic: place for place, topic in enumerate(self.dense.topics)}

    def _place(self, span: Span, places: Mapping[str, int]) -> int | None:
        if span.topic is not None:
            return places.get(span.topic)
        if len(places) > 1:
            raise InvalidInput(f"partition {span} lacks its topic; there are {len(places)}")
        return 0 if places else None


def read_at_all(subscribed: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """[T] of [T, N]."""
    read: npt.NDArray[np.bool_] = np.logical_or.reduce(subscribed, axis=1)
    return read


def scattered(problem: Problem, part: Positions, members: Positions, owners: Owners) -> Owners:
    """Owners of a part -> owners of the whole; NOBODY for every other partition."""
    result = problem.nobody()
    result[part] = np.append(members, NOBODY)[owners]  # NOBODY is the last one
    return result
