"""One rebalance of one group: read, decide, compare-and-set; the record comes with the target.

Level-triggered: without a group_epoch above the target_epoch nothing happens, so running it twice
is harmless.
"""

from collections.abc import Sequence
from contextlib import suppress

from assignment.coordinator import effects
from assignment.coordinator.facts import Hint, Request, TargetRecord
from assignment.coordinator.incarnation import without_bad_claims
from assignment.coordinator.planning import Nothing, Target, next_target
from assignment.coordinator.reading import owners_before, settings_of, without_lock
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
        due, answered = yield from _due(view, requests)
    except effects.RecordsAway:
        return "a refusal cannot be recorded yet"
    if isinstance(due, Nothing):
        return due.reason
    record = record_of(view, due, (yield from effects.ReadHints()), answered)
    refused = yield from effects.SetTarget(view, record, frozenset(without_lock(view)))
    if refused is not None:
        return refused
    with suppress(effects.RecordsAway):  # the next tick keeps it
        yield from keep_outbox()
    yield from effects.Push("target")
    movement = due.change.movement
    return f"epoch {view.meta.group_epoch}: {movement.moves} moved, {movement.kept} kept"


def keep_outbox(turns: int = OUTBOX_TURNS_MAX) -> effects.Steps[None]:
    """All of it, if that many turns are enough; others come between two of them."""
    for _ in range(turns):
        if not (yield from effects.KeepOutbox()):
            return


def _due(
    view: GroupRead, requests: tuple[Request, ...]
) -> effects.Steps[tuple[Target | Nothing, tuple[Request, ...]]]:
    """By the last request, else by the group's own strategy. A strategy that does not fit the group
    as it is changes nothing: its request is refused (and left out), which is told in the audit.
    """
    if requests:
        try:
            return next_target(view, requests[-1].strategy, requests[-1].parameters), requests
        except InvalidInput as error:
            yield from effects.RefuseRequests(requests, str(error))
    try:
        return next_target(view), ()
    except InvalidInput as error:
        strategy = settings_of(view).strategy
        yield from effects.KeepRefusal(strategy, view.meta.group_epoch, str(error))
        return Nothing(f"{strategy} cannot be used: {error}"), ()


def record_of(
    view: GroupRead, due: Target, hints: Sequence[Hint], requests: Sequence[Request]
) -> TargetRecord:
    gathered = _gathered(hints, view)
    causes = tuple(Cause(h.reason, h.member_id, h.epoch, h.at_ms) for h in gathered)
    causes = causes or due.change.causes
    first_ms = min((hint.at_ms for hint in gathered), default=view.now_ms)
    settings = settings_of(view)
    return TargetRecord(
        at_ms=view.now_ms,
        detect_ms=max(0, view.now_ms - first_ms),
        cause=_named([cause.reason for cause in causes]),
        causes=causes,
        requests=tuple(request.pk for request in requests),
        stateful=settings.stateful,
        partitions=settings.partitions,
        before=owners_before(view),
        rows=due.rows,
        change=due.change,
    )


def _gathered(hints: Sequence[Hint], view: GroupRead) -> list[Hint]:
    """Every change of the group since the stored target, oldest first."""
    low, high = view.meta.target_epoch, view.meta.group_epoch
    found = [h for h in hints if low < h.epoch <= high and h.reason not in NOT_A_CAUSE]
    return found[-CAUSES_MAX:]


def _named(reasons: Sequence[Reason]) -> Reason:
    """The first of Reason's that gathered: what people would say was the reason."""
    return next(reason for reason in Reason if reason in reasons)
