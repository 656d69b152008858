"""What became of the events, and the words of every verdict: one judge for all checks and chaos.

Lost and doubled are counted by event and never by sums: one lost and one doubled do not cancel
out. Two independent looks at a run in which nothing was trimmed: the ids of events packed into each
commit, and the ranges (from, to] of the commits over what lies in the streams.

A Redis that forgot is compared with what it held just before. All of it together gives one chain of
effects per partition: what was committed before up to the offset that was restored, then what was
committed since. Lost and doubled are judged on that chain (evaluation.md: from the restored offsets
on); an event that was acknowledged and is in neither chain nor stream is destroyed. Pure.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple

from assignment.scripts.lock_events import LockEvent
from assignment.types import START, Offset, Partition
from assignment.wire import ChangelogEntry, unpack_ids

HELD, VIOLATED, VACUOUS, FAILED = 0, 1, 2, 3  # exit codes
Commits = Mapping[Partition, Sequence[ChangelogEntry]]  # in the order of the changelog
FAULTS_MAX = 100  # as many are named; the rest only counted


class Appended(NamedTuple):
    """One entry of a stream and the events in it; malformed ones have no id."""

    offset: Offset
    ids: tuple[int, ...]


Stream = Mapping[Partition, Sequence[Appended]]  # in the order of the stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """All that a server holds of the group and its stream."""

    stream: Stream
    commits: Commits
    offsets: Mapping[Partition, Offset] = field(default_factory=dict)
    events: Sequence[LockEvent] = ()

    def ids(self, ends: Mapping[Partition, Offset] | None = None) -> frozenset[int]:
        """Of the events that lie in the stream, up to there or all."""
        return frozenset(
            event
            for partition, entries in self.stream.items()
            for one in entries
            if ends is None or one.offset <= ends.get(partition, START)
            for event in one.ids
        )


NOTHING = Content(stream={}, commits={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Event ids, ascending. `faults`: what the ranges say against the ids, at most FAULTS_MAX."""

    lost: tuple[int, ...]
    doubled: tuple[int, ...]
    destroyed: tuple[int, ...] = ()
    faults: tuple[str, ...]

    def without(self, ids: Collection[int]) -> "Effects":
        """Of these nobody knows yet whether they have an effect."""
        return replace(
            self,
            lost=tuple(event for event in self.lost if event not in ids),
            destroyed=tuple(event for event in self.destroyed if event not in ids),
        )


def effects(
    acknowledged: Iterable[int], whole: Content, left: Collection[int] | None = None
) -> Effects:
    """`whole`: the chain (`joined`). `left`: ids that lie in the stream of a Redis that forgot, and
    only such a one may destroy; None: what is gone is lost.
    """
    counted = count_effects(acknowledged, whole.commits, whole.stream)
    if left is None:
        return counted
    destroyed = tuple(event for event in counted.lost if event not in left)
    return replace(counted.without(destroyed), destroyed=destroyed)


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


# --- a Redis that forgot


def joined(*eras: Content) -> Content:
    """One after the other, each but the last forgotten: one chain."""
    return reduce(_joined, eras, NOTHING)


def _joined(past: Content, now: Content) -> Content:
    """What `now` holds, and where it jumps over a range (a state was restored) what filled it."""
    commits: dict[Partition, Sequence[ChangelogEntry]] = {}
    stream: dict[Partition, Sequence[Appended]] = {}
    for partition in sorted({*past.stream, *past.commits, *now.stream, *now.commits}):
        chain, filled = _filled(
            past.commits.get(partition, ()),
            now.commits.get(partition, ()),
            now.offsets.get(partition, START),
        )
        commits[partition] = chain
        before = past.stream.get(partition, ())
        entries = {e.offset: e for e in before if any(a < e.offset <= b for a, b in filled)}
        entries |= {entry.offset: entry for entry in now.stream.get(partition, ())}
        stream[partition] = [entries[offset] for offset in sorted(entries)]
    return Content(stream=stream, commits=commits, offsets=now.offsets, events=now.events)


def _filled(
    past: Sequence[ChangelogEntry], now: Sequence[ChangelogEntry], committed: Offset
) -> tuple[list[ChangelogEntry], list[tuple[Offset, Offset]]]:
    """The chain, and the ranges of it that are from the past."""
    chain: list[ChangelogEntry] = []
    filled: list[tuple[Offset, Offset]] = []
    reached = START
    for entry in now:
        if entry.from_offset > reached:
            chain += _between(past, reached, entry.from_offset)
            filled.append((reached, entry.from_offset))
        chain.append(entry)
        reached = entry.to_offset
    if committed > reached:
        chain += _between(past, reached, committed)
        filled.append((reached, committed))
    return chain, filled


def _between(
    entries: Sequence[ChangelogEntry], after: Offset, until: Offset
) -> list[ChangelogEntry]:
    return [e for e in entries if e.from_offset >= after and e.to_offset <= until]


# --- numbers that are wrong


def late(recovered_ms: int | None, bound_ms: int) -> list[str]:
    in_time = recovered_ms is not None and recovered_ms <= bound_ms
    return [] if in_time else [f"recovered_ms {recovered_ms} is not within {bound_ms}"]


def not_zero(counts: Mapping[str, object], *names: str) -> list[str]:
    """Of these numbers, of all when none is named."""
    return [f"{name} is {counts[name]}" for name in names or counts if counts[name] != 0]
