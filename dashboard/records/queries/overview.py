"""The overview: a tile for each group, and rebalances on one time line. From what is stored."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.actions.roles import Rights
from dashboard.live import group_state
from dashboard.models import MapStrip, Rebalance, Sample
from dashboard.records.queries import rebalances
from dashboard.records.queries.groups import HOUR_MS, GroupRow

TILES_MAX = 24  # of one screen
CELLS_MAX = 200_000  # of one page, in characters
TREND_MS = 600_000
TREND_POINTS = 60
MARKS_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """`cells`: as MapStrip has them; "" where nothing is known of now, or the page is full."""

    row: GroupRow
    cells: str
    lag: Sequence[float]
    rate: Sequence[float]

    @property
    def said(self) -> str:
        """What the map shows, in words; "" where nothing is known of now."""
        sample, partitions = self.row.sample, self.row.group.partitions
        if sample is None:
            return ""
        members = f"{sample.members} member{'' if sample.members == 1 else 's'}"
        return f"{sample.owned} of {partitions} partitions owned by {members}"


@dataclass(frozen=True, slots=True)
class Mark:
    """`share`: where it is between the beginning of the time line and now."""

    share: float
    row: Rebalance


def tiles(rows: Sequence[GroupRow], now_ms: int) -> list[Tile]:
    """The first TILES_MAX: what needs attention first, then by name."""
    order = {state: place for place, state in enumerate(group_state.ORDER)}
    chosen = sorted(rows, key=lambda row: (order[row.state], row.group.name))[:TILES_MAX]
    fresh = [row.group.pk for row in chosen if row.sample is not None]
    cells = _cells(fresh)
    lag, rate = _trends(fresh, now_ms)
    return [
        Tile(row=r, cells=cells.get(r.group.pk, ""), lag=lag[r.group.pk], rate=rate[r.group.pk])
        for r in chosen
    ]


def _cells(groups: Sequence[int]) -> dict[int, str]:
    found = dict(MapStrip.objects.filter(group__in=groups).values_list("group", "cells"))
    kept, left = dict[int, str](), CELLS_MAX
    for pk in groups:
        cells = found.get(pk, "")
        if len(cells) <= left:
            kept[pk], left = cells, left - len(cells)
    return kept


Trends = defaultdict[int, list[float]]


def _trends(groups: Sequence[int], now_ms: int) -> tuple[Trends, Trends]:
    """(lag, events a second) of each group, oldest first, TREND_POINTS at most."""
    rows = Sample.objects.filter(group__in=groups, at_ms__gte=now_ms - TREND_MS).order_by("at_ms")
    lag, rate = Trends(list), Trends(list)
    found = rows.values_list("group", "lag_records", "events_per_second")
    for pk, records, per_second in found:
        if records is not None:
            lag[pk].append(records)
        if per_second is not None:
            rate[pk].append(per_second)
    for trend in (lag, rate):
        for pk, values in trend.items():
            trend[pk] = _thinned(values)
    return lag, rate


def _thinned(values: list[float]) -> list[float]:
    """Every k-th, the last one always."""
    step = -(-len(values) // TREND_POINTS)
    return values[::-1][:: max(1, step)][::-1]


def marks(rights: Rights, now_ms: int) -> list[Mark]:
    """The latest of the last hour."""
    found = rebalances.firsts_since(now_ms - HOUR_MS, rights, MARKS_MAX)
    return [Mark(1 - min(HOUR_MS, max(0, now_ms - row.at_ms)) / HOUR_MS, row) for row in found]
