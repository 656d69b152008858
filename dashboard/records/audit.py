"""Who did what to what, and why: one row per deed. Rows are only ever added."""

from dataclasses import dataclass
from typing import Any

from dashboard.models import AuditEntry, AuditSource, Group

REASON_MAX = 500
AUTOMATIC = "evenkeel"  # the actor when nobody asked


@dataclass(frozen=True, slots=True)
class By:
    """Who did it, by which way, and why."""

    actor: str
    source: AuditSource | str
    reason: str = ""


def automatically(reason: str) -> By:
    return By(AUTOMATIC, AuditSource.AUTOMATIC, reason)


def record(
    by: By,
    action: str,
    group: Group,
    *,
    object: str = "",
    before: Any = None,
    after: Any = None,
    result: str = "done",
) -> AuditEntry:
    """`object` is the group itself when it is not named. `before` and `after` are JSON values; of
    changed settings only those that changed.
    """
    return AuditEntry.objects.create(
        actor=by.actor,
        action=action,
        object=object or group.name,
        group=group,
        reason=by.reason[:REASON_MAX],
        before=before,
        after=after,
        source=AuditSource(by.source),
        result=result,
    )
