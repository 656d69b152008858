"""What can be, of values that can be read: the one set of rules for what Redis, agents and the
database's own rows say.

Two bounds each. What is read is bounded once and for all (the annotations of assignment.bounds), so
that it can be counted on, written and shown; a clock that is set back makes none of it wrong. What
is stored for good is besides compared with the clock of Redis, and with what Redis counted itself.
"""

from assignment.bounds import MOMENT_MAX
from assignment.types import Offset

AHEAD_MS = 86_400_000  # of the clock of Redis, which may have been set back


def is_reached(at_ms: int, now_ms: int) -> bool:
    """Whether it can have happened by that clock of Redis."""
    return 0 <= at_ms <= now_ms + AHEAD_MS


def may_lift(offset: Offset) -> bool:
    """Whether ids of a stream may go on above it: others append there, too, and ids that are used
    up cannot be had again. By no clock, which may have been set back further than was thought.
    """
    return offset.ms <= MOMENT_MAX


def is_committed(offset: Offset, last: Offset, now_ms: int) -> bool:
    """Whether a group may have committed it; `last`: the highest id that its stream ever gave. A
    stream that lost its last writes gives such ids anew.
    """
    return offset <= last or is_reached(offset.ms, now_ms)
