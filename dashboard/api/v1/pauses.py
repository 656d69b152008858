"""Pausing and resuming a group, or some of its partitions."""

from typing import Any

from django.http import HttpRequest

from dashboard.actions import pausing
from dashboard.api.v1 import doors, forms, outcomes
from dashboard.api.v1.commands import current
from dashboard.api.v1.reading import group_named, router


@router.get(
    "/groups/{name}/pauses",
    response=outcomes.Paused,
    url_name="pauses",
    operation_id="read_pauses",
)
def pauses(request: HttpRequest, name: forms.GroupName) -> Any:
    """What people paused, and how far."""
    return told(pausing.standing(group_named(name)))


@router.post(
    "/groups/{name}/pause",
    response=outcomes.Paused,
    url_name="pause",
    operation_id="pause",
)
def pause(request: HttpRequest, name: forms.GroupName, body: forms.PauseAsked) -> Any:
    """Nothing is read or committed any more, of the group or of these partitions; owners keep
    their locks.
    """
    group, by = current(name, body), doors.by(request, body.reason)
    return told(pausing.pause(group, by, body.partitions))


@router.post(
    "/groups/{name}/resume",
    response=outcomes.Paused,
    url_name="resume",
    operation_id="resume",
)
def resume(request: HttpRequest, name: forms.GroupName, body: forms.PauseAsked) -> Any:
    """Owners go on from the committed offset."""
    group, by = current(name, body), doors.by(request, body.reason)
    return told(pausing.resume(group, by, body.partitions))


def told(standing: pausing.Standing) -> dict[str, Any]:
    found = standing.pauses
    return {
        "version": found.version,
        "progress": standing.progress,
        "group": found.group,
        "partitions": [
            {"number": p.number, "actor": one.actor, "reason": one.reason, "at_ms": one.at_ms}
            for p, one in sorted(found.partitions.items())
        ],
        "states": {str(p.number): state for p, state in sorted(standing.states.items())},
        "changed": standing.changed,
    }
