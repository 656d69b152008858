"""The inside form of what a strategy is given: arrays of integers, names at the edges.

Knows nothing of epochs, locks or reports: previous ownership comes as claims, partition -> fence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from assignment.columns import NOBODY as NOBODY  # noqa: PLC0414
from assignment.columns import Fences, Numbers, Places
from assignment.errors import InvalidInput
from assignment.strategies.deal import stable_order
from assignment.strategies.given import Assigned, StrategyInput
from assignment.types import Member, Partition

Owners = npt.NDArray[np.int32]  # [partitions] -> index of the member, NOBODY where there is none
_NONE = np.zeros(0, np.int64)
_LOWEST_FENCE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """The same in arrays: members and topics sorted by name, partitions numbered topic by topic.

    starts [T + 1]: first partition of each topic, and their sum; subscribed [T, N]; previous [P]:
    who keeps what by rule 1 of `sticky` (assignment.md), NOBODY for the rest.
    """

    member_ids: tuple[str, ...]
    topics: tuple[str, ...]
    starts: npt.NDArray[np.int64]
    subscribed: npt.NDArray[np.bool_]
    previous: Owners

    @classmethod
    def of(cls, given: StrategyInput, *, unknown_topics: bool) -> Self:
        """`unknown_topics`: ignored when True; InvalidInput names the first one when False."""
        members = sorted(given.members, key=lambda m: m.member_id)
        topics = tuple(sorted(given.topics))
        if not unknown_topics:
            _refuse_unknown(members, given.topics)
        starts = np.zeros(len(topics) + 1, dtype=np.int64)
        np.cumsum([given.topics[t] for t in topics], out=starts[1:])
        subscribed = np.ones((len(topics), len(members)), dtype=np.bool_)
        for column, member in enumerate(members):
            if member.subscription is not None:
                subscribed[:, column] = [t in member.subscription for t in topics]
        return cls(
            member_ids=tuple(m.member_id for m in members),
            topics=topics,
            starts=starts,
            subscribed=subscribed,
            previous=_kept(members, topics, starts, subscribed),
        )

    @property
    def partitions(self) -> int:
        return int(self.starts[-1])

    def named(self, owners: Owners) -> Assigned:
        """Owners by name; unassigned partitions are in nobody's list."""
        order = stable_order(owners + 1, len(self.member_ids) + 1)
        ends = np.searchsorted(owners[order], np.arange(-1, len(self.member_ids)), side="right")
        topic_of = np.searchsorted(self.starts, order, side="right") - 1
        numbers = (order - self.starts[topic_of]).tolist()
        names = map(self.topics.__getitem__, topic_of.tolist())
        pairs = list(map(Partition._make, zip(names, numbers, strict=True)))
        bounds = ends.tolist()
        return {
            member: tuple(pairs[bounds[i] : bounds[i + 1]])
            for i, member in enumerate(self.member_ids)
        }


class Dealt(NamedTuple):
    """What a strategy gives: `owners` as indexes of the members of `dense`."""

    dense: Dense
    owners: Owners

    @property
    def named(self) -> Assigned:
        return self.dense.named(self.owners)


def _refuse_unknown(members: Iterable[Member], topics: Mapping[str, int]) -> None:
    for member in members:
        for topic in sorted(member.subscription or ()):
            if topic not in topics:
                raise InvalidInput(f"member {member.member_id!r} subscribes to unknown {topic!r}")


def _kept(
    members: list[Member],
    topics: tuple[str, ...],
    starts: npt.NDArray[np.int64],
    subscribed: npt.NDArray[np.bool_],
) -> Owners:
    """Rule 1: claims of existing partitions by subscribed members; the one highest fence wins."""
    partition, member, fence = _claims(members, topics, starts, subscribed)
    previous = np.full(int(starts[-1]), NOBODY, dtype=np.int32)
    highest = np.full(len(previous), _LOWEST_FENCE, dtype=np.int64)
    np.maximum.at(highest, partition, fence)
    wins = fence == highest[partition]
    alone = wins & (np.bincount(partition[wins], minlength=len(previous))[partition] == 1)
    previous[partition[alone]] = member[alone]
    return previous


def _claims(
    members: list[Member],
    topics: tuple[str, ...],
    starts: npt.NDArray[np.int64],
    subscribed: npt.NDArray[np.bool_],
) -> tuple[Numbers, Numbers, Numbers]:
    """[claims] each: partition, member, fence; of those that count at all."""
    spans = list(zip(topics, pairwise(starts.tolist()), strict=True))
    claimed = [_fences(member) for member in members]
    partition = np.concatenate([_NONE, *(
        _positions(fences.places, dict(compress(spans, subscribed[:, index].tolist())))
        for index, fences in enumerate(claimed)
    )])  # fmt: skip
    claimant = np.repeat(np.arange(len(members)), [len(fences) for fences in claimed])
    fence = np.concatenate([_NONE, *(fences.fence for fences in claimed)])
    there = partition != NOBODY
    return partition[there], claimant[there], fence[there]


def _positions(places: Places, spans: Mapping[str, tuple[int, int]]) -> Numbers:
    """`spans`: topic -> its first partition, and that of the next. NOBODY for what is in none."""
    if places.others:
        found = ((number, *spans.get(stream, (0, 0))) for stream, number in places)
        at = [first + n if 0 <= n < end - first else NOBODY for n, first, end in found]
        return np.array(at, np.int64)
    first, end = spans.get(places.stream, (0, 0))
    return np.where(places.number < end - first, first + places.number, NOBODY)


def _fences(member: Member) -> Fences:
    try:
        return Fences.of(member.owned)
    except OverflowError:
        wrong = max(member.owned.values(), key=abs)
        raise InvalidInput(f"fence {wrong} is beyond 64 bits") from None
