"""Which rebalance a target is a round of: one cause has one rebalance, with all the rounds that it
takes (dashboard.md section 2).

Pure. Decided when records are kept, in the order of their epochs: so it is the same whoever
computed the targets.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from assignment.types import Reason

LOOKED_BACK = 200  # rounds; a cause that is older begins anew


@dataclass(frozen=True, slots=True)
class Why:
    """A cause, as a record keeps it."""

    reason: str  # a Reason; an old record may have a word that is none any more
    member: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A round that was kept. `is_open`: its rebalance has not ended."""

    rebalance: int
    causes: tuple[Why, ...]  # oldest first
    learning: int = 0
    is_open: bool = False


def continued(
    causes: Sequence[Why], moved: int, earlier: Callable[[], Iterable[Earlier]]
) -> int | None:
    """The rebalance of which a target is the next round; None: it begins one.

    A target continues when nothing new is among its causes. Where these follow several rebalances
    it belongs to the last of them. `earlier`: rounds, the newest first; asked only when needed.
    """
    if not causes or any(cause.reason not in _FOLLOWS for cause in causes):
        return None
    known = tuple(earlier())
    found = [_follows(cause, moved, known) for cause in causes]
    numbers = [number for number in found if number is not None]
    return known[min(numbers)].rebalance if len(numbers) == len(found) else None


def _follows(cause: Why, moved: int, earlier: Sequence[Earlier]) -> int | None:
    """The number of the round that a cause goes on from; None: it is new."""
    return _FOLLOWS[cause.reason](cause.member, moved, earlier)


def _next_round(member: str, moved: int, earlier: Sequence[Earlier]) -> int | None:
    return 0 if earlier else None


def _ready(member: str, moved: int, earlier: Sequence[Earlier]) -> int | None:
    """Of the join of whoever learned, while that lasts; else of those who learn since."""
    for reason in (Reason.JOIN, Reason.ABLE):
        for number, one in enumerate(earlier):
            if one.is_open and Why(reason, member) in one.causes:
                return number
    learning = (number for number, one in enumerate(earlier) if one.learning)
    return next(learning, 0 if earlier else None)


def _able(member: str, moved: int, earlier: Sequence[Earlier]) -> int | None:
    """For the first time since it joined: that is what it joined for."""
    number, reason = _last_said(member, earlier)
    return number if reason == Reason.JOIN else None


def _leave(member: str, moved: int, earlier: Sequence[Earlier]) -> int | None:
    """Of whoever said that it would, or was told to and had nothing any more."""
    number, reason = _last_said(member, earlier)
    if reason == Reason.LEAVING:
        return number
    newest = earlier[0].rebalance if earlier else None
    for number, one in enumerate(earlier):
        told = {Reason.SCALE_DOWN, Reason.FORCED} & {cause.reason for cause in one.causes}
        if told and one.rebalance == newest and not moved:
            return number
    return None


def _last_said(member: str, earlier: Sequence[Earlier]) -> tuple[int | None, str]:
    """The last of a member's own causes, and its round."""
    for number, one in enumerate(earlier):
        for cause in reversed(one.causes):
            if cause.member == member and cause.reason != Reason.READY:
                return number, cause.reason
    return None, ""


_FOLLOWS: Mapping[str, Callable[[str, int, Sequence[Earlier]], int | None]] = {
    Reason.NEXT_ROUND: _next_round,
    Reason.READY: _ready,
    Reason.ABLE: _able,
    Reason.LEAVE: _leave,
}
