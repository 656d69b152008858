"""Completes the record of a rebalance once what is held equals the target: phases, ownership gap,
outcome.
"""

from dataclasses import dataclass

from django.db.models import F, Max, QuerySet

from assignment import metrics
from assignment.coordinator import PLANNER, settings_of
from assignment.scripts import GroupRead
from assignment.types import Partition
from dashboard.models import Group, Rebalance, RebalanceOutcome, Tenure
from dashboard.records import ownership_map, replica_map

RECORD_WITHIN_MS = 10_000  # a record that is being written comes sooner
FIRST_EFFECT_WITHIN_MS = 600_000  # after so long no commit counts as this rebalance's effect


@dataclass(frozen=True, slots=True)
class Moments:
    """When the parts of a rebalance ended, on the Redis clock; each at least the one before."""

    stored: int
    delivered: int
    revoked: int
    acquired: int


def finish(group: Group, view: GroupRead, delivered_ms: int | None) -> bool:
    """Whether a record was completed. `delivered_ms`: when the last agent had the target, if all
    have.
    """
    row = group.rebalances.filter(outcome=RebalanceOutcome.RUNNING).first()
    if row is None or row.target_epoch != view.meta.target_epoch or not _is_held(view):
        return False
    moments = _moments(row, view, delivered_ms)
    row.deliver_ms = moments.delivered - moments.stored
    row.revoke_ms = moments.revoked - moments.delivered
    row.acquire_ms = moments.acquired - moments.revoked
    row.total_ms = (row.detect_ms or 0) + moments.acquired - row.at_ms
    row.ownership_gap_ms = _gap(row, moments, settings_of(view).lease_ms)
    row.finished_at_ms = moments.acquired
    row.outcome = RebalanceOutcome.DONE
    row.save()
    return True


def note_first_effects(group: Group, view: GroupRead) -> None:
    """The first commit after the last acquire, seen by a tick: exact while commits are a second
    apart.
    """
    waiting = group.rebalances.filter(
        outcome=RebalanceOutcome.DONE,
        first_effect_ms=None,
        finished_at_ms__gt=view.now_ms - FIRST_EFFECT_WITHIN_MS,
    ).exclude(kept=F("partitions"))  # nothing changed hands: only learners were placed
    for row in waiting:
        assert row.finished_at_ms is not None
        before, after = row.owners_before(), row.owners()
        commits = [
            applied.at_ms
            for p, applied in view.applied.items()
            if p.number < len(after) and before[p.number] != after[p.number]
        ]
        later = [at_ms for at_ms in commits if at_ms >= row.finished_at_ms]
        if later:
            row.first_effect_ms = min(later) - row.finished_at_ms
            row.save(update_fields=["first_effect_ms"])


def record_missing(group: Group, view: GroupRead) -> bool:
    """Whether a target had no record: its writer died between Redis and the database."""
    meta, settings = view.meta, settings_of(view)
    old_enough = meta.target_at_ms and view.now_ms - meta.target_at_ms > RECORD_WITHIN_MS
    if not old_enough or group.rebalances.filter(target_epoch=meta.target_epoch).exists():
        return False
    last = group.rebalances.first()
    owners = {p.number: member for member, row in view.target.items() for p in row.active}
    after = [owners.get(number) for number in range(settings.partitions)]
    before = last.owners() if last else [None] * settings.partitions
    kept = sum(old == new for old, new in zip(before, after, strict=False) if old is not None)
    loads = [len(row.active) for member, row in view.target.items() if member in view.members]
    Rebalance.objects.create(
        group=group,
        target_epoch=meta.target_epoch,
        at_ms=meta.target_at_ms,
        cause="record lost",
        strategy=PLANNER if settings.stateful else settings.strategy,
        members=len(loads),
        partitions=settings.partitions,
        kept=kept,
        moved=sum(old is not None for old in before) - kept,
        balance_degree=metrics.balance_degree(loads),
        max_minus_min=metrics.max_minus_min(loads),
        score=metrics.score(loads),
        target=ownership_map.pack(after),
        previous=ownership_map.pack(before),
        replicas=replica_map.pack(view.target) if settings.stateful else None,
        learning=sum(len(row.learning) for row in view.target.values()),
    )
    return True


def _is_held(view: GroupRead) -> bool:
    """Every partition that the target gives away is locked by that member, no other is."""
    wanted = {p: member for member, row in view.target.items() for p in row.active}
    held: dict[Partition, str] = {p: lock.member_id for p, lock in view.locks.items()}
    return wanted == held


def _since(row: Rebalance) -> QuerySet[Tenure]:
    return Tenure.objects.filter(group=row.group_id)


def _moments(row: Rebalance, view: GroupRead, delivered_ms: int | None) -> Moments:
    stored = view.meta.target_at_ms or row.at_ms
    found = _since(row).aggregate(started=Max("started_ms"), ended=Max("ended_ms"))
    acquired = max(stored, found["started"] or 0)
    revoked = min(max(stored, found["ended"] or 0), acquired)
    delivered = min(max(stored, delivered_ms or stored), revoked)
    return Moments(stored, delivered, revoked, acquired)


def _gap(row: Rebalance, moments: Moments, lease_ms: int) -> int:
    """Partition-milliseconds between an owner's end and the next one's start.

    A lock that ran out did so up to a lease before anybody saw it; what nobody owned before that is
    not this rebalance's. A partition that never had an owner had nothing to lose.
    """
    first_ms = row.at_ms - (row.detect_ms or 0) - lease_ms
    begun = _since(row).filter(started_ms__gte=first_ms, started_ms__lte=moments.acquired)
    gap = 0
    for number, started_ms in begun.values_list("number", "started_ms"):
        before = _since(row).filter(number=number, started_ms__lt=started_ms).first()
        if before is not None and before.ended_ms is not None:
            gap += max(0, started_ms - max(before.ended_ms, first_ms))
    return gap
