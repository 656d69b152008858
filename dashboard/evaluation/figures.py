"""The figures that all checks and chaos share, read from history: who moved, who paused and for how
long, how it was restored, how long nobody owned a partition, and the bound of a recovery.

Pure. All times are milliseconds of one machine's clock: Redis' for locks and commits, the agents'
for what they did.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import NamedTuple, Protocol

from assignment.errors import InvalidInput
from assignment.scripts.lock_events import LockEvent
from assignment.types import GroupSettings, Offset, Partition
from dashboard.evaluation.judge import Content

SLACK_MS = 200  # beside two micro-batches
MARGIN_MS = 2_000
ENDS = ("released", "expired")  # kinds of lock events


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One tenure: [started_ms, ended_ms), or still going on. `refused`: its refused commits."""

    partition: str
    member: str
    fence: int
    started_ms: int
    ended_ms: int | None = None
    end: str | None = None
    refused_at_ms: int | None = None
    refused: int = 0

    def holds_at(self, at_ms: int) -> bool:
        return self.started_ms <= at_ms and (self.ended_ms is None or at_ms < self.ended_ms)


@dataclass(frozen=True, slots=True)
class Commit:
    at_ms: int
    partition: str
    fence: int


class Coverage(NamedTuple):
    """Sums over partitions, in partition-milliseconds."""

    unowned_ms: int
    overlap_ms: int  # time with more than one owner, counted once for each owner too many


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the group in [began_ms, ended_ms), compared with the quiet time from `quiet_ms`
    to `stirred_ms`.

    `loads`: member -> how many partitions it owns at the end, of those that are there then.
    """

    name: str
    quiet_ms: int
    stirred_ms: int
    began_ms: int
    ended_ms: int
    converged: bool
    loads: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A partition that one member acquired and brought to the committed offset.

    `learned`: its replica had caught up before, as a learner's or a standby's.
    """

    member: str
    partition: str
    fence: int
    acquired_ms: float
    running_ms: float
    learned: bool

    @property
    def took_ms(self) -> float:
        return self.running_ms - self.acquired_ms


@dataclass(frozen=True, slots=True)
class History:
    """Everything of one run that is asked for here, the commits in the order of their time."""

    intervals: Sequence[Interval]
    commits: Sequence[Commit]
    rounds_ms: Sequence[int]
    takeovers: Sequence[Takeover]


def of_changes(history: History, changes: Sequence[Change]) -> list[dict[str, object]]:
    """The numbers of each change of one run but lost and doubled.

    A micro-batch is the longest time between two commits of a partition in any quiet time of the
    run: that before one change is shorter than most changes, and the longest of few is small.
    """
    quiet = [gap for change in changes for gap in quiet_gaps(history, change)]
    return [of_change(history, change, quiet) for change in changes]


def quiet_gaps(history: History, change: Change) -> list[int]:
    """Those that end before it is stirred: what ends later may be the pause that is looked for."""
    return [
        later - sooner
        for of in commits_by_partition(history.commits).values()
        for sooner, later in pairwise(commit.at_ms for commit in of)
        if change.quiet_ms < later <= change.stirred_ms
    ]


def of_change(history: History, change: Change, quiet: Sequence[int]) -> dict[str, object]:
    """pause_ms: of each partition that changed hands, from the last commit under the fence before
    to the first under the next one; parts_ms: what it is made of. unaffected_paused: of the
    partitions that kept their fence, the share whose longest time without a commit in the change is
    above two micro-batches, the longest of the `quiet` ones, and SLACK_MS.
    """
    moved = moved_partitions(history.intervals, change)
    of = commits_by_partition(history.commits)
    over = handovers(of, change)
    stayed = {p: times for p, times in of.items() if p not in moved}
    during = {
        p: max(gaps([c.at_ms for c in times], change.began_ms, change.ended_ms), default=0)
        for p, times in stayed.items()
    }
    limit_ms = 2 * max(quiet, default=0) + SLACK_MS
    paused = sum(gap > limit_ms for gap in during.values())
    taken = takeovers_in(history, change)
    return {
        "name": change.name,
        "pause_ms": summary([after.at_ms - before.at_ms for before, after in over]),
        "parts_ms": parts(history, over),
        "unaffected_paused": round(paused / len(stayed), 4) if stayed else 0.0,
        "rounds": sum(change.began_ms <= at < change.ended_ms for at in history.rounds_ms),
        "max_minus_min": max(change.loads.values()) - min(change.loads.values())
        if change.loads
        else None,
        "converged": change.converged,
        "took_ms": change.ended_ms - change.began_ms,
        "moved": len(moved),
        "unaffected": len(stayed),
        "micro_batch_ms": round(median(quiet)) if quiet else None,
        "gap_before_ms": max(quiet, default=None),
        "gap_during_ms": max(during.values(), default=None),
        "limit_ms": limit_ms,
        "restore_ms": summary([t.took_ms for t in taken]),
    }


def moved_partitions(intervals: Iterable[Interval], change: Change) -> set[str]:
    """Those that were granted anew in the change, to whomever."""
    return {i.partition for i in intervals if is_within(i.started_ms, change)}


def handovers(of: Mapping[str, Sequence[Commit]], change: Change) -> list[tuple[Commit, Commit]]:
    """The last commit under one fence and the first under the next, if that is in the change."""
    return [
        (before, after)
        for commits in of.values()
        for before, after in pairwise(commits)
        if after.fence != before.fence and is_within(after.at_ms, change)
    ]


def parts(history: History, over: Iterable[tuple[Commit, Commit]]) -> dict[str, float | None]:
    """Medians of what a pause is made of: until the old owner let go, the new one acquired, its
    replica stood at the committed offset, and it committed.
    """
    held = {(i.partition, i.fence): i for i in history.intervals}
    running = {(t.partition, t.fence): t.running_ms for t in history.takeovers}
    found: dict[str, list[float]] = {"let_go": [], "acquire": [], "restore": [], "commit": []}
    for before, after in over:
        old = held.get((before.partition, before.fence))
        new = held.get((after.partition, after.fence))
        runs_ms = running.get((after.partition, after.fence))
        if old is None or old.ended_ms is None or new is None or runs_ms is None:
            continue
        at = [before.at_ms, old.ended_ms, new.started_ms, runs_ms, after.at_ms]
        for part, (sooner, later) in zip(found.values(), pairwise(at), strict=True):
            part.append(later - sooner)
    return {name: round(median(times), 1) if times else None for name, times in found.items()}


def gaps(times: Sequence[int], from_ms: int, to_ms: int) -> list[int]:
    """Between two commits one after the other, where that time has a part in [from_ms, to_ms]."""
    return [
        later - sooner for sooner, later in pairwise(times) if later > from_ms and sooner < to_ms
    ]


def takeovers_in(history: History, change: Change) -> list[Takeover]:
    return [t for t in history.takeovers if is_within(t.acquired_ms, change)]


def from_another(history: History, taken: Iterable[Takeover]) -> list[Takeover]:
    """Those of a partition that somebody had before, and never this member: no older replica
    helps.
    """
    held = by_partition(history.intervals)
    found = []
    for one in taken:
        before = {i.member for i in held.get(one.partition, ()) if i.fence < one.fence}
        if before and one.member not in before:
            found.append(one)
    return found


def commits_by_partition(commits: Iterable[Commit]) -> dict[str, list[Commit]]:
    found: dict[str, list[Commit]] = {}
    for commit in commits:
        found.setdefault(commit.partition, []).append(commit)
    return found


class Time(Protocol):
    @property
    def began_ms(self) -> int: ...
    @property
    def ended_ms(self) -> int: ...


def is_within(at_ms: float, time: Time) -> bool:
    return time.began_ms <= at_ms < time.ended_ms


def summary(values: Sequence[float]) -> dict[str, float | int | None]:
    """Median, 95th percentile by nearest rank, greatest; None where nothing was measured."""
    ordered = sorted(values)
    if not ordered:
        return {"median": None, "p95": None, "max": None, "count": 0}
    return {
        "median": round(median(ordered), 1),
        "p95": round(ordered[-(-95 * len(ordered) // 100) - 1], 1),
        "max": round(ordered[-1], 1),
        "count": len(ordered),
    }


# --- who owned what


def by_partition(intervals: Iterable[Interval]) -> dict[str, list[Interval]]:
    """Each partition's tenures in the order of their fences."""
    found: dict[str, list[Interval]] = {}
    for interval in sorted(intervals, key=lambda i: i.fence):
        found.setdefault(interval.partition, []).append(interval)
    return found


def run_coverage(intervals: Sequence[Interval], until_ms: int) -> Coverage:
    """Overlap over the whole run; unowned from the moment at which every partition had its first
    owner.
    """
    held = by_partition(intervals)
    begun_ms = max((first.started_ms for first, *_ in held.values()), default=until_ms)
    return Coverage(
        unowned_ms=coverage(intervals, held, begun_ms, until_ms).unowned_ms,
        overlap_ms=coverage(intervals, held, 0, until_ms).overlap_ms,
    )


def coverage(
    intervals: Iterable[Interval], partitions: Iterable[str], start_ms: int, end_ms: int
) -> Coverage:
    """Ownership gap and overlap of the partitions within [start_ms, end_ms)."""
    if end_ms < start_ms:
        raise InvalidInput(f"the window ends at {end_ms}, before its start {start_ms}")
    spans: dict[str, list[tuple[int, int]]] = {partition: [] for partition in partitions}
    for i in intervals:
        first = max(i.started_ms, start_ms)
        last = end_ms if i.ended_ms is None else min(i.ended_ms, end_ms)
        if i.partition in spans and first < last:
            spans[i.partition].append((first, last))
    unowned = overlap = 0
    for own in spans.values():
        union = _union(own)
        unowned += end_ms - start_ms - union
        overlap += sum(last - first for first, last in own) - union
    return Coverage(unowned, overlap)


def _union(spans: list[tuple[int, int]]) -> int:
    covered, reached = 0, None
    for first, last in sorted(spans):
        begin = first if reached is None else max(first, reached)
        covered += max(0, last - begin)
        reached = last if reached is None else max(last, reached)
    return covered


def regrants(events: Iterable[LockEvent]) -> Iterator[tuple[LockEvent, LockEvent]]:
    """Each grant, and before it the one before of its partition."""
    last: dict[Partition, LockEvent] = {}
    for event in events:
        if event.kind != "acquired":
            continue
        if (before := last.get(event.partition)) is not None:
            yield before, event
        last[event.partition] = event


def moves(events: Iterable[LockEvent]) -> Iterator[tuple[LockEvent, LockEvent]]:
    """From one member to another."""
    return ((a, b) for a, b in regrants(events) if a.member_id != b.member_id)


def name_of(member_id: str) -> str:
    """Of its agent: what comes after it is random."""
    return member_id.rpartition("-")[0]


def commits_of(eras: Iterable[Content]) -> list[Commit]:
    """Of all eras, each once, in the order of their time: a changelog's entry id begins with Redis'
    time of the commit.
    """
    found = {
        (str(partition), entry.entry_id): Commit(
            Offset.parse(entry.entry_id).ms, str(partition), entry.fence
        )
        for era in eras
        for partition, entries in era.commits.items()
        for entry in entries
    }
    return sorted(found.values(), key=lambda commit: commit.at_ms)


def bound_ms(timings: GroupSettings, more_leases: int = 0, restore_ms: float = 0.0) -> int:
    """From the heal to an even group (evaluation.md). A Redis that was started anew grants nothing
    for one lease more. `restore_ms`: the longest that a partition took from its lock to the
    committed offset.
    """
    waits = timings.session_timeout_ms + 2 * timings.heartbeat_ms + MARGIN_MS
    return (1 + more_leases) * timings.lease_ms + waits + round(restore_ms)
