"""What a fault did, read from history: tenures as the locks saw them, commits with their time.

Pure. All times are milliseconds of the Redis server's clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assignment.errors import InvalidInput
from assignment.types import INCARNATION_STEP
from dashboard.evaluation.figures import Commit, Interval, by_partition, is_within


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A fault at `began_ms`; `before_ms` is where its quiet comparison begins, `ended_ms` its end.

    `recovered_ms` was measured by whoever caused it; None = from the locks. `over_ms` is until
    when the others' commits are looked at; None = until it was recovered.
    """

    name: str
    before_ms: int
    began_ms: int
    ended_ms: int
    bound_ms: int
    victims: tuple[str, ...]
    recovered_ms: int | None = None
    over_ms: int | None = None


def recovery_ms(intervals: Sequence[Interval], window: Window) -> int | None:
    """From the fault to the last lost partition in new hands; None when one never was. Raises
    InvalidInput when the victims had none: such a step shows nothing.
    """
    if not any(lost_by_victim(interval, window) for interval in intervals):
        raise InvalidInput(f"{window.name}: {', '.join(window.victims)} owned nothing")
    last = 0
    for held in by_partition(intervals).values():
        victim = next((i for i in held if lost_by_victim(i, window)), None)
        if victim is None:
            continue
        later = [i.started_ms for i in held if i.fence > victim.fence]
        if not later:
            return None
        last = max(last, min(later) - window.began_ms)
    return last


def lost_by_victim(interval: Interval, window: Window) -> bool:
    return interval.member in window.victims and interval.holds_at(window.began_ms)


def of_the_others(intervals: Iterable[Interval], window: Window) -> list[Interval]:
    """The tenures of who was not hurt, as they were when the fault began."""
    return [i for i in intervals if i.member not in window.victims and i.holds_at(window.began_ms)]


def others_owners_changed(intervals: Sequence[Interval], window: Window, until_ms: int) -> int:
    """Partitions of the others that another member got by then, or that nobody has."""
    held = by_partition(i for i in intervals if i.started_ms <= until_ms)
    return sum(
        any(i.fence > own.fence and i.member != own.member for i in held[own.partition])
        or not held[own.partition][-1].holds_at(until_ms)
        for own in of_the_others(intervals, window)
    )


def others_fences_changed(intervals: Sequence[Interval], window: Window, until_ms: int) -> int:
    """Partitions of the others whose tenure ended by then, whoever has them now."""
    return sum(not own.holds_at(until_ms) for own in of_the_others(intervals, window))


def incarnation_at(intervals: Iterable[Interval], at_ms: int) -> int:
    """The highest of any fence granted by then."""
    return max((i.fence // INCARNATION_STEP for i in intervals if i.started_ms <= at_ms), default=0)


def longest_gap_ms(
    commits: Iterable[Commit],
    intervals: Sequence[Interval],
    window: Window,
    from_ms: int,
    to_ms: int,
) -> int:
    """The longest time that one of the others did not commit, within [from_ms, to_ms].

    A member's commits on all partitions that it had count, under whatever fence: that it goes on
    working is the question.
    """
    theirs = {(i.partition, i.member) for i in of_the_others(intervals, window)}
    owners = {
        (i.partition, i.fence): i.member for i in intervals if (i.partition, i.member) in theirs
    }
    times: dict[str, list[int]] = {member: [from_ms] for member in owners.values()}
    for commit in sorted(commits, key=lambda c: c.at_ms):
        member = owners.get((commit.partition, commit.fence))
        if member is not None and from_ms <= commit.at_ms <= to_ms:
            times[member].append(commit.at_ms)
    return max(
        (b - a for at in times.values() for a, b in zip(at, [*at[1:], to_ms], strict=True)),
        default=0,
    )


def expired_leases(intervals: Iterable[Interval], window: Window) -> int:
    return sum(
        i.end == "expired" and i.ended_ms is not None and is_within(i.ended_ms, window)
        for i in intervals
    )


def refused_commits(intervals: Iterable[Interval], window: Window) -> int:
    return sum(
        i.refused
        for i in intervals
        if i.refused_at_ms is not None and is_within(i.refused_at_ms, window)
    )


def of_step(
    intervals: Sequence[Interval], commits: Sequence[Commit], window: Window
) -> Mapping[str, object]:
    """The step's numbers but lost and doubled.

    Where nobody was hurt nobody comes back, so nothing may move until the step ends.
    """
    recovered = (
        window.recovered_ms if window.recovered_ms is not None else recovery_ms(intervals, window)
    )
    over_ms = window.over_ms
    if over_ms is None:
        over_ms = window.ended_ms if recovered is None else window.began_ms + recovered
    until_ms = over_ms if window.victims else window.ended_ms
    before, after = (incarnation_at(intervals, at) for at in (window.began_ms, window.ended_ms))
    return {
        "name": window.name,
        "recovered_ms": recovered,
        "bound_ms": window.bound_ms,
        "incarnation_raised": after > before,
        "others_owners_changed": others_owners_changed(intervals, window, until_ms),
        "others_fences_changed": others_fences_changed(intervals, window, until_ms),
        "others_commit_gap_before_ms": longest_gap_ms(
            commits, intervals, window, window.before_ms, window.began_ms
        ),
        "others_commit_gap_during_ms": longest_gap_ms(
            commits, intervals, window, window.began_ms, over_ms
        ),
        "expired_leases": expired_leases(intervals, window),
        "refused_commits": refused_commits(intervals, window),
    }
