"""The figures of one run: what the faults cost. Pure. A figure that nobody can know is None."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from assignment import metrics
from assignment.types import Offset, Partition
from dashboard.evaluation import figures as measures
from dashboard.evaluation.chaos.acts import PHASES
from dashboard.evaluation.chaos.eye import Sample
from dashboard.evaluation.chaos.history import History
from dashboard.evaluation.chaos.judge import harmless
from dashboard.evaluation.figures import ENDS, Interval, name_of
from dashboard.evaluation.judge import Content, joined


class Wait(NamedTuple):
    """`waited_ms`: of that time, what the machine did not take."""

    from_ms: int
    to_ms: int
    waited_ms: int


def figures(history: History, recovered_ms: int | None) -> dict[str, Any]:
    intervals, commits = intervals_of(history), measures.commits_of(history.eras)
    until_ms = end_of(history, recovered_ms)
    change = measures.Change(
        name="+".join(history.asked.faults),
        quiet_ms=history.began_ms,
        stirred_ms=history.struck_ms,
        began_ms=history.struck_ms,
        ended_ms=until_ms,
        converged=recovered_ms is not None,
    )
    handed = measures.handovers(measures.commits_by_partition(commits), change)
    before, after = sample_at(history, history.struck_ms), sample_at(history, history.ended_ms)
    loads = loads_of(after) if after else []
    return {
        "moves": moved(history),
        "avoidable_moves": avoidable(history),
        "unaffected_paused": paused(history, intervals, until_ms),
        "refused_commits": refused(history),
        "processed_again": processed_again(history),
        "balance_degree": rounded(metrics.balance_degree(loads)),
        "stickiness": stuck(before, after),
        "stickiness_best": stuck_best(before, after),
        "pause_ms": measures.summary([later.at_ms - first.at_ms for first, later in handed]),
        "unowned_ms": unowned(history, intervals, until_ms),
        "phases_ms": phases(history),
        "rebalances": rebalances(history),
        "lag_max": max((s.lag for s in history.samples if s.lag is not None), default=None),
    }


def end_of(history: History, recovered_ms: int | None) -> int:
    """When it had recovered, else when the run ended."""
    if history.healed_ms is None or recovered_ms is None:
        return history.ended_ms
    return history.healed_ms + recovered_ms


def intervals_of(history: History) -> list[Interval]:
    """One for each grant, as the locks saw it."""
    ends = {(e.partition, e.fence): e for e in history.events if e.kind in ENDS}
    found = []
    for e in history.events:
        if e.kind == "acquired":
            end = ends.get((e.partition, e.fence))
            found.append(
                Interval(
                    partition=str(e.partition),
                    member=e.member_id,
                    fence=e.fence,
                    started_ms=e.at_ms,
                    ended_ms=end.at_ms if end else None,
                    end=end.kind if end else None,
                )
            )
    return found


def sample_at(history: History, at_ms: int) -> Sample | None:
    """The last one until then."""
    found = [sample for sample in history.samples if sample.at_ms <= at_ms]
    return found[-1] if found else None


def loads_of(sample: Sample) -> list[int]:
    loads = dict.fromkeys((m for m, able in sample.members.items() if able), 0)
    for member in sample.owners.values():
        loads[member] = loads.get(member, 0) + 1
    return list(loads.values())


def moved(history: History) -> int:
    """Grants since the first fault to another member than the one before."""
    found = measures.moves(history.events)
    return sum(after.at_ms >= history.struck_ms for _, after in found)


def avoidable(history: History) -> int | None:
    stored = [t for t in history.targets or () if t.at_ms >= history.struck_ms]
    known = [t.avoidable for t in stored if t.avoidable is not None]
    if history.targets is None or len(known) < len(stored):
        return None
    return sum(known)


def rebalances(history: History) -> int | None:
    if history.targets is None:
        return None
    return sum(t.at_ms >= history.struck_ms for t in history.targets)


def paused(history: History, intervals: Sequence[Interval], until_ms: int) -> float | None:
    """The share of those partitions whose owner nobody struck, and which kept their fence, that
    had events for longer without a commit than two batches and some slack, the longest batch of the
    quiet time. What its owner had no CPU is not counted: that is this machine's, not the group's.
    """
    at = sample_at(history, history.struck_ms)
    hurt = frozenset() if harmless(history.asked) else history.hurt
    owners = {p: name_of(member) for p, member in at.owners.items()} if at else {}
    new = {i.partition for i in intervals if history.struck_ms <= i.started_ms < until_ms}
    kept = {p: name for p, name in owners.items() if p not in new and name not in hurt}
    if not kept:
        return None
    whole = joined(*history.eras)
    waits = {p: list(waits_of(history, whole, p, name)) for p, name in kept.items()}
    batches = (w for of in waits.values() for w in of if w.to_ms <= history.struck_ms)
    quiet_ms = max((w.waited_ms for w in batches if w.to_ms > history.began_ms), default=0)
    limit_ms = 2 * quiet_ms + measures.SLACK_MS
    stood = [p for p in kept if longest(waits[p], history.struck_ms, until_ms) > limit_ms]
    return round(len(stood) / len(kept), 4)


def waits_of(history: History, whole: Content, partition: str, owner: str) -> Iterator[Wait]:
    """From the moment when a partition had an event, and the commit before, to the next commit."""
    of = Partition.parse(partition)
    came = [one.offset for one in whole.stream.get(of, ())]
    for before, after in pairwise(whole.commits.get(of, ())):
        to_ms = Offset.parse(after.entry_id).ms
        first = bisect_right(came, before.to_offset)
        came_ms = came[first].ms if first < len(came) else to_ms
        from_ms = min(to_ms, max(came_ms, Offset.parse(before.entry_id).ms))
        yield Wait(from_ms, to_ms, to_ms - from_ms - history.held_up_ms(from_ms, to_ms, [owner]))


def longest(waits: Iterable[Wait], from_ms: int, to_ms: int) -> int:
    """Of those that have a part in that time."""
    found = (w.waited_ms for w in waits if w.to_ms > from_ms and w.from_ms < to_ms)
    return max(found, default=0)


def refused(history: History) -> int | None:
    """As the consumers were told, else as Redis counted."""
    if history.asked.consumer == "light" and history.answers is not None:
        return sum(one.answer == "fenced" for one in history.answers)
    return max((sample.refused for sample in history.samples), default=None)


def processed_again(history: History) -> int | None:
    """Events of batches that were not committed: somebody processes them once more."""
    if history.answers is None or history.asked.consumer != "light":
        return None
    return sum(one.events for one in history.answers if one.answer in ("fenced", "moved"))


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def stuck(before: Sample | None, after: Sample | None) -> float | None:
    """The share of the partitions whose owner is the same after all as before."""
    if before is None or after is None or not before.owners:
        return None
    kept = sum(after.owners.get(p) == member for p, member in before.owners.items())
    return round(kept / len(before.owners), 4)


def stuck_best(before: Sample | None, after: Sample | None) -> float | None:
    """What any even assignment to the same members could have kept."""
    if before is None or after is None:
        return None
    movement = metrics.movement(
        before.owners, after.owners, list(after.members), len(before.owners)
    )
    return rounded(movement.stickiness_best)


def unowned(history: History, intervals: Sequence[Interval], until_ms: int) -> int:
    """Partition-milliseconds without an owner since the first fault."""
    names = [str(p) for p in history.asked.timings.all_partitions()]
    return measures.coverage(intervals, names, history.struck_ms, until_ms).unowned_ms


def phases(history: History) -> Mapping[str, Any] | None:
    """Time of each phase of the rebalances since the first fault."""
    if history.targets is None:
        return None
    stored = [t for t in history.targets if t.at_ms >= history.struck_ms]
    return {
        phase: measures.summary([ms for t in stored if (ms := t.phases.get(phase)) is not None])
        for phase in PHASES
    }
