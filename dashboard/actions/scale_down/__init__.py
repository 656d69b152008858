"""Scale-downs: a look before, telling members to leave, and what may be changed while they do.

One function each, used by the page, the command and the tick alike (learners.md S1 to S9).
"""

from dashboard.actions.scale_down.actions import (
    FROM_SETTINGS,
    TIMEOUT_MAX_MS,
    abort,
    extend,
    force,
    limit_of,
    start,
)
from dashboard.actions.scale_down.preview import Candidate, Conflict, Preview, preview

__all__ = [
    "FROM_SETTINGS",
    "TIMEOUT_MAX_MS",
    "Candidate",
    "Conflict",
    "Preview",
    "abort",
    "extend",
    "force",
    "limit_of",
    "preview",
    "start",
]
