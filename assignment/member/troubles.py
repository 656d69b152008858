"""Which partitions this member cannot serve, from what fails here again and again.

After FAILURES_MAX failures in a row a partition is given up for some minutes: it is wanted no
more, so that it is released, and told, so that another member gets it (coordination.md section 8).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from assignment.troubles import UNSERVED_MAX, WHY_MAX, Failing, Unserved, UnservedReason
from assignment.types import Partition

FAILURES_MAX = 3
UNSERVED_FOR_MS = 300_000  # then it is tried again: what was wrong here may have passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """`failures` in a row. `until_ms` None: it is still tried here."""

    reason: UnservedReason
    failures: int
    why: str = ""
    until_ms: int | None = None


Troubles = Mapping[Partition, Trouble]


def failed(
    troubles: Troubles, partition: Partition, trouble: Trouble, until_ms: int
) -> dict[Partition, Trouble]:
    """The troubles with this one, which after too many failures is given up until then. One that
    is given up already stays so, for as long as it was.
    """
    before = troubles.get(partition)
    if before is not None and before.until_ms is not None:
        return dict(troubles)
    ends_ms = until_ms if trouble.failures >= FAILURES_MAX else None
    return {**troubles, partition: replace(trouble, until_ms=ends_ms)}


def failed_again(troubles: Troubles, partition: Partition) -> int:
    """How many failures it is with this one."""
    before = troubles.get(partition)
    return 1 + (before.failures if before is not None else 0)


def went_well(
    troubles: Troubles, partitions: Iterable[Partition], reason: UnservedReason
) -> dict[Partition, Trouble]:
    """Without the failures of that kind that did not yet lead to giving up."""
    well = set(partitions)
    return {
        p: trouble
        for p, trouble in troubles.items()
        if p not in well or trouble.until_ms is not None or trouble.reason is not reason
    }


def batches_ended(
    troubles: Troubles, running: Mapping[Partition, int], failing: Iterable[Failing], until_ms: int
) -> dict[Partition, Trouble]:
    """`running`: what runs here, with its fence; what is said of another fence counts no more."""
    told = {one.partition: one for one in failing if running.get(one.partition) == one.fence}
    after = went_well(troubles, running.keys() - told.keys(), UnservedReason.BATCH)
    for partition, one in told.items():
        trouble = Trouble(reason=UnservedReason.BATCH, failures=one.failures, why=one.why)
        after = failed(after, partition, trouble, until_ms)
    return after


def tried_again(troubles: Troubles, now_ms: int) -> dict[Partition, Trouble]:
    """Without those whose time is over."""
    return {
        p: trouble
        for p, trouble in troubles.items()
        if trouble.until_ms is None or now_ms < trouble.until_ms
    }


def given_up(troubles: Troubles) -> frozenset[Partition]:
    return frozenset(p for p, trouble in troubles.items() if trouble.until_ms is not None)


def unserved_of(troubles: Troubles, now_ms: int) -> dict[Partition, Unserved]:
    """As it is told: at most UNSERVED_MAX, with more this member is unable as a whole."""
    told = {p: troubles[p] for p in sorted(given_up(troubles))[:UNSERVED_MAX]}
    return {
        p: Unserved(
            reason=one.reason,
            left_ms=max(0, (one.until_ms or 0) - now_ms),
            why=one.why[:WHY_MAX],
        )
        for p, one in told.items()
    }
