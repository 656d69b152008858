"""The coordinator's decisions on a group: who is gone, who can own, and the next target.

Pure: a `GroupRead` in, values out; the same view gives the same answer, in whatever order things
were reported (coordination.md section 3, learners.md L5, L8, L9). Remembers nothing.
"""

from assignment.coordinator.effects import Effect, Evict, RecordsAway, Steps, run
from assignment.coordinator.facts import GroupRecord
from assignment.coordinator.incarnation import Known, Raise, needs_incarnation
from assignment.coordinator.planning import PLANNER, Nothing, Target, next_target, target_of
from assignment.coordinator.reading import (
    able_members,
    claims,
    is_forced,
    is_leaving,
    owners_before,
    settings_of,
    unable_members,
    waiting_for,
    without_lock,
)
from assignment.coordinator.rebalance import rebalance
from assignment.coordinator.record import Cause, Change, Move
from assignment.coordinator.sessions import expired_members
from assignment.coordinator.tick import tick

__all__ = [
    "PLANNER",
    "Cause",
    "Change",
    "Effect",
    "Evict",
    "GroupRecord",
    "Known",
    "Move",
    "Nothing",
    "Raise",
    "RecordsAway",
    "Steps",
    "Target",
    "able_members",
    "claims",
    "expired_members",
    "is_forced",
    "is_leaving",
    "needs_incarnation",
    "next_target",
    "owners_before",
    "rebalance",
    "run",
    "settings_of",
    "target_of",
    "tick",
    "unable_members",
    "waiting_for",
    "without_lock",
]
