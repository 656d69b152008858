"""What all finished rounds of each group come to: figures that only rise, from their records.

They are the same in every process and after a restart. A process reads each record that is older
than SETTLED_MS once, and the newer ones each time; one that still runs is counted when it ends. A
rebalance counts with its first round: its end may be taken back, when another round follows.
"""

import threading
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from django.db.models import Count, F, Max, Q, QuerySet, Sum

from dashboard.models import Rebalance, RebalanceOutcome
from dashboard.records.queries.rebalances import PHASES

SETTLED_MS = 3_600_000  # then nothing of a finished one changes; its first effect came long before
TIMES = (*PHASES, "total")

Sums = Counter[str]  # "rebalances", "rounds", "gap_ms", moves "needed" ...; of TIMES "..._ms" ...


class Kind(NamedTuple):
    group_id: int
    cause: str
    outcome: str


class Totals:
    """One per process; may be read by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._through = 0  # up to this one all are settled,
        self._running = set[int]()  # but these
        self._settled: dict[Kind, Sums] = {}

    def read(self, groups: Collection[int], now_ms: int) -> dict[Kind, Sums]:
        """Of these groups; what is known of others is dropped. Raises DatabaseError."""
        with self._lock:
            self._take_ended()
            self._settle(now_ms)
            self._settled = {k: sums for k, sums in self._settled.items() if k.group_id in groups}
            found = {kind: sums.copy() for kind, sums in self._settled.items()}
            newer = Rebalance.objects.filter(pk__gt=self._through)
        _add(found, newer.exclude(outcome=RebalanceOutcome.RUNNING))
        return {kind: sums for kind, sums in found.items() if kind.group_id in groups}

    def _take_ended(self) -> None:
        rows = Rebalance.objects.filter(pk__in=self._running)
        still = set(
            rows.filter(outcome=RebalanceOutcome.RUNNING).order_by().values_list("pk", flat=True)
        )
        if ended := self._running - still:
            _add(self._settled, Rebalance.objects.filter(pk__in=ended))
        self._running = still

    def _settle(self, now_ms: int) -> None:
        rows = Rebalance.objects.filter(pk__gt=self._through)
        old = rows.filter(at_ms__lt=now_ms - SETTLED_MS).order_by()
        through = old.aggregate(last=Max("pk"))["last"]
        if through is None:
            return
        rows = rows.filter(pk__lte=through)
        running = set(
            rows.filter(outcome=RebalanceOutcome.RUNNING).order_by().values_list("pk", flat=True)
        )
        _add(self._settled, rows.exclude(pk__in=running))
        self._through, self._running = through, self._running | running


def _add(to: dict[Kind, Sums], rows: QuerySet[Rebalance]) -> None:
    sums = {f"{name}_ms": Sum(f"{name}_ms") for name in TIMES}
    known = {f"{name}_known": Count(f"{name}_ms") for name in TIMES}
    grouped = (
        rows.order_by()
        .values_list("group_id", "cause", "outcome")
        .annotate(
            **{f"sum_{name}": value for name, value in (sums | known).items()},
            sum_rebalances=Count("pk", filter=Q(first=None)),
            sum_rounds=Count("pk"),
            sum_gap_ms=Sum("ownership_gap_ms"),
            sum_needed=Sum(F("moved") - F("avoidable")),
            sum_avoidable=Sum("avoidable"),
            sum_unjudged=Sum("moved", filter=Q(avoidable=None)),
        )
    )
    names = (*sums, *known, "rebalances", "rounds", "gap_ms", "needed", "avoidable", "unjudged")
    for group_id, cause, outcome, *values in grouped:
        found = to.setdefault(Kind(group_id, cause, outcome), Counter())
        found.update({name: value or 0 for name, value in zip(names, values, strict=True)})


totals = Totals()
