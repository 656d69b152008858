"""What people do about what needs attention: take note of it, and say from when on it does."""

from collections.abc import Mapping

from assignment.errors import InvalidInput
from dashboard.actions.access import require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.live.attention import DEFAULTS, LIMITS
from dashboard.models import AttentionLimits, Group, Occurrence
from dashboard.records import audit
from dashboard.records.audit import By
from dashboard.records.queries import attention as queries
from dashboard.webhooks import queue
from dashboard.webhooks.stored import Event


@audit.attempted("acknowledge attention")
def acknowledge(occurrence: Occurrence, by: By, at_ms: int) -> Occurrence:
    """The reason of `by` is the note. Raises Refused: it is over, or somebody did it already."""
    require(by, Action.ACKNOWLEDGE, occurrence.group)
    with audit.atomic():
        rows = Occurrence.objects.select_for_update(of=("self",)).select_related("group")
        row = rows.get(pk=occurrence.pk)
        if not row.is_open or row.raised_at_ms is None:
            raise Refused(f"{row.rule} of {row.group} is over: there is nothing to acknowledge")
        if row.is_acknowledged:
            who = row.acknowledged_by
            raise Refused(f"{row.rule} of {row.group} was acknowledged by {who} already")
        row.acknowledged_at_ms = at_ms
        row.acknowledged_by = by.actor
        row.note = by.kept_reason
        row.save(update_fields=["acknowledged_at_ms", "acknowledged_by", "note"])
        audit.record(
            by,
            "acknowledge attention",
            row.group,
            object=f"{row.group}/{row.rule}",
            after={"rule": row.rule, "why": row.why, "since_ms": row.began_at_ms},
        )
        queue.put(row, Event.ACKNOWLEDGED)
    return row


@audit.attempted("change attention")
def change_limits(group: Group, changes: Mapping[str, int], by: By) -> Mapping[str, int]:
    """All limits of the group, then. Raises InvalidInput that names the limit."""
    require(by, Action.CHANGE_SETTINGS, group)
    checked(changes)
    with audit.atomic():
        row, _ = AttentionLimits.objects.select_for_update().get_or_create(group=group)
        before = queries.limits_of(group)
        after = {**before, **changes}
        differing = sorted(name for name in after if after[name] != before[name])
        if differing:
            row.values = {n: value for n, value in after.items() if value != DEFAULTS[n]}
            row.save(update_fields=["values"])
            audit.record(
                by,
                "change attention",
                group,
                before={name: before[name] for name in differing},
                after={name: after[name] for name in differing},
            )
    return after


def checked(changes: Mapping[str, int]) -> None:
    for name, value in changes.items():
        limit = LIMITS.get(name)
        if limit is None:
            raise InvalidInput(f"there is no limit {name!r} of attention")
        if not limit.least <= value <= limit.most:
            raise InvalidInput(f"{name} is {value}, not within {limit.least} and {limit.most}")
