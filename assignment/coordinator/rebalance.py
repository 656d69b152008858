"""One rebalance of one group: read, decide, compare-and-set; the record comes with the target.

Level-triggered: without a group_epoch above the target_epoch nothing happens, so running it twice
is harmless.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from assignment.coordinator import approved, effects
from assignment.coordinator.facts import Hint, Request, TargetRecord
from assignment.coordinator.incarnation import without_bad_claims
from assignment.coordinator.planning import Nothing, Target, next_target, why_not_yet
from assignment.coordinator.reading import settings_of, without_lock
from assignment.coordinator.record import Cause
from assignment.errors import InvalidInput
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import NOT_A_CAUSE, Coordination, Reason

OUTBOX_TURNS_MAX = 50  # at once: somebody may write faster than it is read
CAUSES_MAX = 200  # kept of those that gathered; a record stays readable


def rebalance(by: Coordination) -> effects.Steps[str]:
    """What came of it, in words for people. Where others compute, only what a person asked of this
    one is done.
    """
    try:
        yield from keep_outbox()  # so that nobody is answered twice
        requests = yield from effects.ReadRequests()
    except effects.RecordsAway:
        requests = ()
    view = without_bad_claims((yield from effects.Read(Purpose.REBALANCE)), 0)
    if view.meta.settings is None:
        return "the group is not in Redis"  # the tick puts it there
    if view.meta.coordination is not by and not requests:
        return f"coordination is {view.meta.coordination}"
    try:
        due = yield from _due(view, requests, by)
    except effects.RecordsAway:
        return "a refusal cannot be recorded yet"
    if isinstance(due, Nothing):
        return due.reason
    record = record_of(due, (yield from effects.ReadHints()))
    view, left_out = due.view, frozenset(without_lock(view))
    refused = yield from effects.SetTarget(view, record, left_out, due.raises)
    if refused is not None:
        return refused
    with suppress(effects.RecordsAway):  # the next tick keeps it
        yield from keep_outbox()
    yield from effects.Push("target")
    movement = record.change.movement
    return f"epoch {view.meta.group_epoch}: {movement.moves} moved, {movement.kept} kept"


def keep_outbox(turns: int = OUTBOX_TURNS_MAX) -> effects.Steps[None]:
    """All of it, if that many turns are enough; others come between two of them."""
    for _ in range(turns):
        if not (yield from effects.KeepOutbox()):
            return


class Due(NamedTuple):
    """A target for the group_epoch of `view`. `raises`: that is still to be raised, with it."""

    view: GroupRead
    target: Target
    requests: tuple[Request, ...] = ()  # that it answers
    raises: bool = False


def _due(
    view: GroupRead, requests: tuple[Request, ...], by: Coordination
) -> effects.Steps[Due | Nothing]:
    """By a plan, else by the group's own strategy. A plan that does not fit the group as it is
    changes nothing: its request is refused (and left out), which is told in the audit.
    """
    for request in requests[:1]:
        planned = yield from _as_approved(view, request)
        if planned is not None:
            return planned
    if view.meta.coordination is not by:
        return Nothing(f"coordination is {view.meta.coordination}")
    try:
        found = next_target(view)
        return found if isinstance(found, Nothing) else Due(view, found)
    except InvalidInput as error:
        strategy = settings_of(view).strategy
        yield from effects.KeepRefusal(strategy, view.meta.group_epoch, str(error))
        return Nothing(f"{strategy} cannot be used: {error}")


def _as_approved(view: GroupRead, request: Request) -> effects.Steps[Due | Nothing | None]:
    """Exactly the target of a plan, never another. None: it is stale, and refused."""
    plan = request.approved
    if not approved.is_told(plan, view):
        if (yield from effects.ReadRecord()).settings == plan.settings:
            return Nothing("the plan's settings are not in Redis yet")
        yield from effects.RefuseRequest(request.pk, "stale: other settings were saved since")
        return None
    if why := approved.why_not_as_approved(plan, view):
        yield from keep_outbox()  # it may be its own target, which another run stored
        yield from effects.RefuseRequest(request.pk, f"stale: {why}")
        return None
    if why := why_not_yet(view):
        return Nothing(why)
    if not (yield from effects.TakeRequest(request)):
        return Nothing("the plan was cancelled")
    ahead, target = approved.target_by(plan, view)
    return Due(ahead, target, (request,), raises=plan.settings is None)


def record_of(due: Due, hints: Sequence[Hint]) -> TargetRecord:
    view, change = due.view, due.target.change
    gathered = _gathered(hints, view)
    causes = tuple(Cause(h.reason, h.member_id, h.epoch, h.at_ms) for h in gathered)
    if due.raises:
        causes += (Cause(Reason.MANUAL, "", view.meta.group_epoch, view.now_ms),)
    causes = causes or change.causes
    first_ms = min((hint.at_ms for hint in gathered), default=view.now_ms)
    settings = settings_of(view)
    return TargetRecord(
        at_ms=view.now_ms,
        detect_ms=max(0, view.now_ms - first_ms),
        cause=_named([cause.reason for cause in causes]),
        causes=causes,
        requests=tuple(request.pk for request in due.requests),
        stateful=settings.stateful,
        partitions=settings.partitions,
        rows=due.target.rows,
        change=change,
    )


def _gathered(hints: Sequence[Hint], view: GroupRead) -> list[Hint]:
    """Every change of the group since the stored target, oldest first."""
    low, high = view.meta.target_epoch, view.meta.group_epoch
    found = [h for h in hints if low < h.epoch <= high and h.reason not in NOT_A_CAUSE]
    return found[-CAUSES_MAX:]


def _named(reasons: Sequence[Reason]) -> Reason:
    """The first of Reason's that gathered: what people would say was the reason."""
    return next(reason for reason in Reason if reason in reasons)
