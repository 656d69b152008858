"""Records of rebalances, their rounds and the tenures since, as the rules that end them ask."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import transaction
from django.db.models import F

from assignment.coordinator import effects, facts, rounds
from dashboard import models
from dashboard.records import bulk

OF_ROUND = tuple(facts.Round.__dataclass_fields__)
ROUND = f"""
SELECT {", ".join("id" if name == "pk" else name for name in OF_ROUND)}
FROM {models.Rebalance._meta.db_table}
WHERE group_id = %s AND outcome IN (%s, %s)
ORDER BY incarnation DESC, target_epoch DESC LIMIT 1
"""


def read_round(group: models.Group, effect: effects.ReadRound) -> facts.Round | None:
    """Each look asks this."""
    known = models.RebalanceOutcome.RUNNING, models.RebalanceOutcome.DONE
    rows = bulk.fetched(ROUND, (group.pk, *known))
    return facts.Round(**dict(zip(OF_ROUND, rows[0], strict=True))) if rows else None


# Those that were touched are found by indexes, and then alone: else SQLite reads all of the group
# in the window's order.
_TENURE = models.Tenure._meta.db_table
TENURES = f"""
SELECT started_ms, ended_ms, COALESCE(
 LAG(ended_ms) OVER (PARTITION BY number ORDER BY started_ms, fence),
 CASE WHEN EXISTS (
  SELECT 1 FROM {_TENURE} earlier WHERE earlier.group_id = %(group)s
   AND earlier.number = touched.number AND earlier.started_ms < %(since)s
 ) THEN %(since)s END)
FROM {_TENURE} touched WHERE id IN (
 SELECT id FROM {_TENURE} WHERE group_id = %(group)s AND started_ms >= %(since)s
 UNION SELECT id FROM {_TENURE} WHERE group_id = %(group)s AND ended_ms >= %(since)s)
"""


def read_tenures(group: models.Group, effect: effects.ReadTenures) -> facts.Tenures:
    """Of tenures that began or ended since, however many there were before."""
    since_ms = effect.since_ms
    rows = bulk.fetched(TENURES, {"group": group.pk, "since": since_ms})
    return facts.Tenures(
        last_start_ms=max((started_ms for started_ms, _, _ in rows), default=0),
        last_end_ms=max((ended_ms or 0 for _, ended_ms, _ in rows), default=0),
        begun=tuple((start, before) for start, _, before in rows if start >= since_ms),
    )


def read_earlier(group: models.Group) -> Iterator[rounds.Earlier]:
    """The rounds that were kept, newest first."""
    rows = group.rebalances.select_related("first").only(
        "causes", "learning", "ended_at_ms", "first__ended_at_ms"
    )
    for row in rows.order_by("-pk")[: rounds.LOOKED_BACK]:
        whole = row.first or row
        yield rounds.Earlier(
            rebalance=whole.pk,
            causes=why_of(row.causes),
            learning=row.learning,
            is_open=whole.ended_at_ms is None,
        )


def why_of(causes: Iterable[Mapping[str, Any]]) -> tuple[rounds.Why, ...]:
    return tuple(rounds.Why(cause["reason"], cause["member"]) for cause in causes)


def read_open(group: models.Group, effect: effects.ReadOpen) -> tuple[facts.Open, ...]:
    rows = group.rebalances.filter(first=None, ended_at_ms=None).order_by("pk")
    found = rows.values_list("pk", "at_ms", "detect_ms")
    return tuple(facts.Open(pk, at_ms - (detect_ms or 0)) for pk, at_ms, detect_ms in found)


def complete(group: models.Group, effect: effects.Complete) -> None:
    at = effect.moments
    with transaction.atomic():
        if _complete_round(effect):
            for ended in effect.ended:
                models.Rebalance.objects.filter(pk=ended.pk).update(
                    ended_at_ms=at.acquired, gap_in_all_ms=ended.gap_ms
                )


def _complete_round(effect: effects.Complete) -> bool:
    """False: the next target came first."""
    at = effect.moments
    rows = models.Rebalance.objects.filter(pk=effect.pk, outcome=models.RebalanceOutcome.RUNNING)
    done = rows.update(
        deliver_ms=at.delivered - at.stored,
        revoke_ms=at.revoked - at.delivered,
        acquire_ms=at.acquired - at.revoked,
        total_ms=effect.total_ms,
        ownership_gap_ms=effect.ownership_gap_ms,
        finished_at_ms=at.acquired,
        outcome=models.RebalanceOutcome.DONE,
    )
    return bool(done)


FINISHED = f"""
SELECT 1 FROM {models.Rebalance._meta.db_table}
WHERE group_id = %s AND outcome = %s AND first_effect_ms IS NULL AND finished_at_ms > %s LIMIT 1
"""


def read_finished(group: models.Group, effect: effects.ReadFinished) -> tuple[facts.Finished, ...]:
    """Each look asks this, and mostly there are none."""
    if not bulk.fetched(FINISHED, (group.pk, models.RebalanceOutcome.DONE, effect.since_ms)):
        return ()
    rows = group.rebalances.filter(
        outcome=models.RebalanceOutcome.DONE,
        first_effect_ms=None,
        finished_at_ms__gt=effect.since_ms,
    ).exclude(kept=F("partitions"))  # nothing changed hands: only learners were placed
    rows = rows.only("group", "finished_at_ms", "previous", "target")
    return tuple(
        facts.Finished(
            pk=row.pk,
            finished_at_ms=row.finished_at_ms or 0,
            moved=frozenset(move.number for move in row.moves()),
        )
        for row in rows
    )


def keep_first_effect(group: models.Group, effect: effects.KeepFirstEffect) -> None:
    models.Rebalance.objects.filter(pk=effect.pk).update(first_effect_ms=effect.after_ms)
