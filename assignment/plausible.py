"""What can be, of values that can be read: the one set of rules for what Redis, agents and the
database's own rows say.

Two bounds each. What is read is bounded once and for all (the annotations of assignment.bounds), so
that it can be counted on, written and shown; a clock that is set back makes none of it wrong. What
is stored for good is besides compared with the clock of Redis, and with what Redis counted itself.
"""

from typing import NamedTuple

from assignment.bounds import MOMENT_MAX
from assignment.errors import InvalidInput
from assignment.types import Offset

AHEAD_MS = 86_400_000  # of the clock of Redis, which may have been set back
COUNTED_MAX = 2**51  # epochs, numbers of events: no group gets there, and Redis can count on


class Counted(NamedTuple):
    """How far a group has come in Redis: nothing that its scripts wrote is above."""

    now_ms: int
    incarnation: int
    group_epoch: int
    event_seq: int

    def has_target(self, incarnation: int, epoch: int) -> bool:
        """Whether a target may have been stored under that."""
        is_epoch = 0 < epoch <= min(self.group_epoch, COUNTED_MAX)
        return is_epoch and 0 <= incarnation <= self.incarnation


def counted(number: int) -> int:
    """An epoch, or the number of an event, as it was stored; 0 for what nobody counted."""
    return number if number <= COUNTED_MAX else 0


def is_reached(at_ms: int, now_ms: int) -> bool:
    """Whether it can have happened by that clock of Redis."""
    return 0 <= at_ms <= now_ms + AHEAD_MS


def reached(at_ms: int, now_ms: int) -> int:
    """The nearest that can have happened."""
    return min(max(at_ms, 0), now_ms + AHEAD_MS)


def check_reached(name: str, at_ms: int, now_ms: int) -> None:
    """Raises InvalidInput that names it."""
    if not is_reached(at_ms, now_ms):
        raise InvalidInput(f"{name} {at_ms} is more than a day ahead of {now_ms}")


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
