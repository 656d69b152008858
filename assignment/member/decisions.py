"""The member as it is -> what it does next, each with its reason."""

from typing import assert_never

from assignment.member import messages
from assignment.member.state import (
    ConsumerState,
    Holding,
    MemberState,
    departs_because,
    is_outdated,
    wanted_partitions,
)
from assignment.types import Claim, HeldState

OUTDATED = "granted before the incarnation was raised"


def decide(member: MemberState, now_ms: int) -> list[messages.Effect]:
    """All that is to be done now, in order. Doing none, some or all of it twice is safe."""
    if not member.joined:
        return [] if member.leaving else [messages.Join(reason="not a member")]
    effects: list[messages.Effect] = []
    wanted = wanted_partitions(member)
    for partition, holding in sorted(member.held.items()):
        claim = Claim(partition, holding.fence)
        if member.leaving or (member.target is not None and partition not in wanted):
            effects += _revoke(member, claim, holding, now_ms)
        elif is_outdated(member, holding):
            effects += _finish_batch(member, claim, holding, now_ms)
        else:
            effects += _keep(member, claim, holding, now_ms)
    effects += _acquire(member, now_ms)
    if member.consumer is ConsumerState.STALLED and not member.leaving:
        effects.append(messages.RestartConsumer(reason="no batch finished although there is lag"))
    if why := departs_because(member):
        effects.append(messages.Depart(reason=why))
    if member.leaving and not member.held:
        effects.append(messages.Leave(reason="nothing is held any more"))
    return effects


def _keep(
    member: MemberState, claim: Claim, holding: Holding, now_ms: int
) -> list[messages.Effect]:
    """What is in both the old and the new assignment is never touched while it runs."""
    match holding.state:
        case HeldState.RUNNING:
            return []
        case HeldState.RESTORING if holding.restored or not member.stateful:
            reason = "restored" if holding.restored else "nothing to restore"
            return [_set_state(claim, holding, HeldState.RUNNING, reason)]
        case HeldState.RESTORING:
            if holding.restore_ordered or now_ms < holding.retry_ms:
                return []
            return [messages.Restore(claim=claim, reason="acquired")]
        case HeldState.REVOKED if member.stateful and not holding.restored:
            return [_set_state(claim, holding, HeldState.RESTORING, "given back before it ran")]
        case HeldState.REVOKING | HeldState.REVOKED:
            return [
                _set_state(claim, holding, HeldState.RUNNING, "given back while it was revoked")
            ]
        case _:
            assert_never(holding.state)


def _revoke(
    member: MemberState, claim: Claim, holding: Holding, now_ms: int
) -> list[messages.Effect]:
    why = "leaving" if member.leaving else "revoked"
    if over := _batch_is_over(member, holding, now_ms):
        reason = f"{why}: {over}"
        return [messages.Release(claim=claim, expected=holding.state, reason=reason)]
    return _leave_out(claim, holding, why)


def _finish_batch(
    member: MemberState, claim: Claim, holding: Holding, now_ms: int
) -> list[messages.Effect]:
    """A fence of a lower incarnation is given up for a new one (`_acquire`), the lock is not: so
    nobody comes in between, and the pause is no longer than a batch.
    """
    if _batch_is_over(member, holding, now_ms):
        return []
    return _leave_out(claim, holding, OUTDATED)


def _batch_is_over(member: MemberState, holding: Holding, now_ms: int) -> str:
    """Why no batch is waited for any more; "" while one may have it in hand."""
    if member.consumer is ConsumerState.DEAD:
        return "its consumer is dead"
    if holding.state is HeldState.REVOKED:
        return "batch finished"
    grace_end_ms = holding.since_ms + member.settings.grace_ms
    if holding.state is HeldState.REVOKING and now_ms >= grace_end_ms:
        return "the grace is over"
    return ""


def _leave_out(claim: Claim, holding: Holding, why: str) -> list[messages.Effect]:
    """Of the next batch."""
    match holding.state:
        case HeldState.RESTORING if not holding.restored:
            # Compare-and-set, not release: a `running` whose answer was lost may be in a batch.
            return [_set_state(claim, holding, HeldState.REVOKED, f"{why} before it ran")]
        case HeldState.RESTORING | HeldState.RUNNING:
            return [_set_state(claim, holding, HeldState.REVOKING, why)]
        case HeldState.REVOKING | HeldState.REVOKED:
            return []
        case _:
            assert_never(holding.state)


def _set_state(claim: Claim, holding: Holding, state: HeldState, reason: str) -> messages.SetState:
    return messages.SetState(claim=claim, expected=holding.state, state=state, reason=reason)


def _acquire(member: MemberState, now_ms: int) -> list[messages.Effect]:
    if member.target is None or member.renewed_ms is None:
        return []
    effects: list[messages.Effect] = []
    due = tuple(p for p, wait in member.waiting.items() if wait.retry_ms <= now_ms)
    if due:
        reason = f"assigned at epoch {member.target.target_epoch}"
        effects.append(messages.Acquire(partitions=due, reason=reason))
    wanted = wanted_partitions(member)
    anew = tuple(
        p
        for p, holding in sorted(member.held.items())
        if p in wanted
        and is_outdated(member, holding)
        and holding.retry_ms <= now_ms
        and _batch_is_over(member, holding, now_ms)
    )
    if anew:
        effects.append(messages.Acquire(partitions=anew, reason=OUTDATED))
    return effects
