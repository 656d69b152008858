"""Lost and doubled, counted by event and never by sums: one lost and one doubled do not cancel out.

Two independent looks at a run in which nothing was trimmed: the ids of events packed into each
commit, and the ranges (from, to] of the commits over what lies in the streams. Pure.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assignment.types import START, Offset, Partition
from assignment.wire import ChangelogEntry, unpack_ids

Commits = Mapping[Partition, Sequence[ChangelogEntry]]  # in the order of the changelog
FAULTS_MAX = 100  # as many are named; the rest only counted


class Appended(NamedTuple):
    """One entry of a stream and the events in it; malformed ones have no id."""

    offset: Offset
    ids: tuple[int, ...]


Stream = Mapping[Partition, Sequence[Appended]]  # in the order of the stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Event ids, ascending. `faults`: what the ranges say against the ids, at most FAULTS_MAX."""

    lost: tuple[int, ...]
    doubled: tuple[int, ...]
    faults: tuple[str, ...]

    @property
    def exactly_once(self) -> bool:
        return not (self.lost or self.doubled or self.faults)


def count_effects(acknowledged: Iterable[int], commits: Commits, stream: Stream) -> Effects:
    """lost: acknowledged to the producer and in no accepted commit, by id or by range.

    doubled: in more than one commit or twice in one, by id or by range. Everything by which the
    two looks differ is a fault, named.
    """
    told = set(acknowledged)
    by_id = Counter(
        event for entries in commits.values() for one in entries for event in unpack_ids(one.ids)
    )
    by_range: Counter[int] = Counter()
    faults: list[str] = []
    for partition in sorted(stream.keys() | commits.keys()):
        entries, appended = commits.get(partition, ()), stream.get(partition, ())
        faults += _chain_faults(partition, entries)
        faults += _range_counts(partition, entries, appended, by_range)
    faults += _differences(by_id, by_range)
    return Effects(
        lost=tuple(sorted(e for e in told if not by_id[e] or not by_range[e])),
        doubled=tuple(sorted(e for e, n in (by_id | by_range).items() if n > 1)),
        faults=_bounded(faults),
    )


def _chain_faults(partition: Partition, entries: Sequence[ChangelogEntry]) -> list[str]:
    """`from` of a commit is `to` of the one before it; its fence never falls; totals add up."""
    faults = []
    reached, fence, total = START, 0, 0
    for one in entries:
        if one.from_offset != reached:
            faults.append(f"{partition}: a commit starts at {one.from_offset}, not at {reached}")
        if one.to_offset < one.from_offset:
            faults.append(f"{partition}: a commit ends at {one.to_offset}, before its start")
        if one.fence < fence:
            faults.append(f"{partition}: fence {one.fence} commits after {fence}")
        if one.total != total + one.events:
            faults.append(f"{partition}: total is {one.total}, not {total + one.events}")
        reached, fence, total = one.to_offset, one.fence, one.total
    return faults


def _range_counts(
    partition: Partition,
    entries: Sequence[ChangelogEntry],
    appended: Sequence[Appended],
    by_range: Counter[int],
) -> list[str]:
    """Counts the events of every commit's range; a commit whose ids are others is a fault."""
    faults = []
    offsets = [entry.offset for entry in appended]
    for one in entries:
        first = _after(offsets, one.from_offset)
        covered = appended[first : _after(offsets, one.to_offset)]
        events = Counter(event for entry in covered for event in entry.ids)
        by_range.update(events)
        if events != Counter(unpack_ids(one.ids)):
            faults.append(
                f"{partition}: the ids in ({one.from_offset}, {one.to_offset}] are not its events"
            )
    return faults


def _after(offsets: Sequence[Offset], offset: Offset) -> int:
    """How many entries lie at or before the offset."""
    return bisect_left(offsets, Offset(offset.ms, offset.seq + 1))


def _differences(by_id: Counter[int], by_range: Counter[int]) -> list[str]:
    return [
        f"event {event} has {by_id[event]} effects by id, {by_range[event]} by range"
        for event in sorted(by_id | by_range)
        if by_id[event] != by_range[event]
    ]


def _bounded(faults: list[str]) -> tuple[str, ...]:
    if len(faults) <= FAULTS_MAX:
        return tuple(faults)
    return (*faults[: FAULTS_MAX - 1], f"and {len(faults) - FAULTS_MAX + 1} more")
