"""Who did what to what, and why: one row per deed. Rows are only ever added."""

from typing import Any

from dashboard.models import AuditEntry, AuditSource, Group

REASON_MAX = 500
AUTOMATIC = "evenkeel"  # the actor when nobody asked


def record(
    *,
    actor: str,
    action: str,
    object: str,
    source: AuditSource | str,
    group: Group | None = None,
    reason: str = "",
    before: Any = None,
    after: Any = None,
    result: str = "done",
) -> AuditEntry:
    """`before` and `after` are JSON values; of changed settings only those that changed."""
    return AuditEntry.objects.create(
        actor=actor,
        action=action,
        object=object,
        group=group,
        reason=reason[:REASON_MAX],
        before=before,
        after=after,
        source=AuditSource(source),
        result=result,
    )
