"""A group's numbers over time, thinned to what a chart can show."""

from dataclasses import dataclass

from dashboard.models import Group, Sample

POINTS_MAX = 720


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    at_ms: int
    lag_records: int | None
    events_per_second: float | None


def series(group: Group, from_ms: int) -> list[Point]:
    """Oldest first; of more than POINTS_MAX samples every k-th."""
    rows = Sample.objects.filter(group=group, at_ms__gte=from_ms).order_by("at_ms")

    found = rows.values_list("at_ms", "lag_records", "events_per_second")
    count = rows.count()
    if not count:
        return []
    step = -(-count // POINTS_MAX)
    return [
        Point(at_ms=at_ms, lag_records=lag, events_per_second=rate)
        for i, (at_ms, lag, rate) in enumerate(found.iterator(chunk_size=2_000))
        if (count - 1 - i) % step == 0
    ]
