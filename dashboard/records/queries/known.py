"""What history can say of a moment: from when on there is any, and where events were lost."""

from dataclasses import dataclass
from datetime import UTC, datetime

from assignment.errors import InvalidInput
from dashboard.models import Group, HistoryGap


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Of one moment. `begins_ms` None: there is no history yet. `is_dropped`: there was more before
    that, which is kept no longer. `lost_from_ms`: the last event before those that were lost at
    that moment; `lost_until_ms`: when the loss was found.
    """

    at_ms: int
    begins_ms: int | None
    is_dropped: bool = False
    lost_from_ms: int | None = None
    lost_until_ms: int | None = None
    lost_before_ms: int | None = None  # events were lost last, before the moment

    @property
    def is_known(self) -> bool:
        return self.begins_ms is not None and self.at_ms >= self.begins_ms


class NotKept(InvalidInput):
    """A moment before the group's history is kept; the sentence says from when on it is."""


def check_kept(group: Group, at_ms: int) -> None:
    """Raises NotKept."""
    if at_ms < group.history_from_ms:
        kept = datetime.fromtimestamp(group.history_from_ms / 1_000, UTC)
        raise NotKept(
            f"the history of group {group.name} is kept from"
            f" {kept.isoformat(timespec='milliseconds')} on: what was before was dropped"
            " (EVENKEEL_HISTORY_DAYS)"
        )


def begins_ms(group: Group) -> int | None:
    """From then on every moment is known, but for what was lost; None: there is no history yet."""
    if group.history_from_ms:
        return group.history_from_ms
    return group.tenures.order_by("started_ms").values_list("started_ms", flat=True).first()


def of_moment(group: Group, at_ms: int) -> Known:
    begins = begins_ms(group)
    lost = group.gaps.exclude(events_lost=0)
    later = lost.filter(at_ms__gt=at_ms).order_by("at_ms").first()
    earlier = lost.filter(at_ms__lte=at_ms).order_by("-at_ms").first()
    from_ms = _last_change(group, later) if later else None
    is_inside = later is not None and from_ms is not None and from_ms < at_ms
    return Known(
        at_ms=at_ms,
        begins_ms=begins,
        is_dropped=bool(group.history_from_ms),
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
