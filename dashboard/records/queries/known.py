"""What history can say of a moment: from when on there is any, and where events were lost."""

from dataclasses import dataclass

from dashboard.models import Group, HistoryGap


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Of one moment. `begins_ms` None: there is no history yet. `lost_from_ms`: the last event
    before those that were lost at that moment; `lost_until_ms`: when the loss was found.
    """

    at_ms: int
    begins_ms: int | None
    lost_from_ms: int | None = None
    lost_until_ms: int | None = None
    lost_before_ms: int | None = None  # events were lost last, before the moment

    @property
    def is_known(self) -> bool:
        return self.begins_ms is not None and self.at_ms >= self.begins_ms


def of_moment(group: Group, at_ms: int) -> Known:
    begins = group.tenures.order_by("started_ms").values_list("started_ms", flat=True).first()
    lost = group.gaps.exclude(events_lost=0)
    later = lost.filter(at_ms__gt=at_ms).order_by("at_ms").first()
    earlier = lost.filter(at_ms__lte=at_ms).order_by("-at_ms").first()
    from_ms = _last_change(group, later) if later else None
    is_inside = later is not None and from_ms is not None and from_ms < at_ms
    return Known(
        at_ms=at_ms,
        begins_ms=begins,
        lost_from_ms=from_ms if is_inside else None,
        lost_until_ms=later.at_ms if later and is_inside else None,
        lost_before_ms=earlier.at_ms if earlier else None,
    )


def _last_change(group: Group, gap: HistoryGap) -> int | None:
    """The last moment before a gap at which something is known to have happened."""
    rows = group.tenures
    began = rows.filter(started_ms__lt=gap.at_ms).order_by("-started_ms")
    ended = rows.filter(ended_ms__lt=gap.at_ms).order_by("-ended_ms")
    found = [
        began.values_list("started_ms", flat=True).first(),
        ended.values_list("ended_ms", flat=True).first(),
    ]
    return max((moment for moment in found if moment is not None), default=None)
