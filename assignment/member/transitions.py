"""What happened -> the member after it. An event that does not fit changes nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from assignment.member import messages
from assignment.member.state import (
    Holding,
    MemberState,
    Wait,
    claims_of,
    holds,
    is_outdated,
    lease_is_over,
    wanted_partitions,
)
from assignment.member.troubles import (
    FAILURES_MAX,
    Trouble,
    batches_ended,
    failed,
    failed_again,
    tried_again,
    went_well,
)
from assignment.troubles import UnservedReason
from assignment.types import NO_EPOCH, Claim, Drain, Epoch, Held, HeldState, Partition


def handle(
    member: MemberState, event: messages.Event, now_ms: int
) -> tuple[MemberState, list[messages.Effect]]:
    """The member after the event. The only effects are drops: what is lost needs no decision."""
    match event:
        case (
            messages.Renewed()
            | messages.Fenced()
            | messages.OwnedSeen()
            | messages.Released()
            | messages.Tick()
        ):
            return _lock_event(member, event, now_ms)
        case messages.Granted(claim, state):
            after = _granted(member, claim, state, now_ms)
        case messages.Refused():
            after = _refused(member, event)
        case messages.TryAgain():
            after = _asking_at_once(member, now_ms)
        case messages.RestoreEnded() | messages.BatchesEnded() | messages.StoodStill():
            after = _trouble_seen(member, event, now_ms)
        case messages.TargetSeen() | messages.EpochsSeen():
            after = _target_told(member, event, now_ms)
        case messages.IdentityHeard() | messages.IdentityRead():
            after = _identity_told(member, event, now_ms)
        case (
            messages.Joined()
            | messages.SettingsSeen()
            | messages.ConsumerSeen()
            | messages.DrainSeen()
            | messages.LeaveAsked()
        ):
            after = _told(member, event)
        case _:
            assert_never(event)
    return after, []


def _changed(member: MemberState, **values: Any) -> MemberState:
    """The same one where nothing differs: most of what is heard again says what is known."""
    differs = any(getattr(member, name) != value for name, value in values.items())
    return replace(member, **values) if differs else member


def _target_told(
    member: MemberState, event: messages.TargetSeen | messages.EpochsSeen, now_ms: int
) -> MemberState:
    match event:
        case messages.TargetSeen():
            return _target_seen(member, event, now_ms)
        case messages.EpochsSeen(incarnation, mode_epoch):
            return _epochs_seen(member, incarnation, mode_epoch, now_ms)
        case _:
            assert_never(event)


def _identity_told(
    member: MemberState, event: messages.IdentityHeard | messages.IdentityRead, now_ms: int
) -> MemberState:
    match event:
        case messages.IdentityHeard(identity):
            heard, read, since_ms = identity or member.identity, member.identity_read, None
        case messages.IdentityRead(identity):
            heard, read, since_ms = member.identity, identity, now_ms
        case _:
            assert_never(event)
    is_foreign = bool(heard) and heard != read
    if is_foreign and member.foreign_since_ms is not None:
        since_ms = member.foreign_since_ms
    return _changed(
        member,
        identity=heard,
        identity_read=read,
        foreign_since_ms=since_ms if is_foreign else None,
    )


def _told(
    member: MemberState,
    event: messages.Joined
    | messages.SettingsSeen
    | messages.ConsumerSeen
    | messages.DrainSeen
    | messages.LeaveAsked,
) -> MemberState:
    match event:
        case messages.Joined():
            after = replace(member, joined=True)
        case messages.SettingsSeen(settings):
            after = replace(member, settings=settings)
        case messages.ConsumerSeen(state, stateful):
            after = replace(member, consumer=state, stateful=stateful)
        case messages.DrainSeen(drain, heard):
            after = _drain_seen(member, drain, heard)
        case messages.LeaveAsked(signalled):
            told = member.signalled or signalled
            after = replace(member, leaving=True, signalled=told, waiting={})
        case _:
            assert_never(event)
    return after


def _lock_event(
    member: MemberState,
    event: messages.Renewed
    | messages.Fenced
    | messages.OwnedSeen
    | messages.Released
    | messages.Tick,
    now_ms: int,
) -> tuple[MemberState, list[messages.Effect]]:
    """What may end a holding without this member having given it up."""
    match event:
        case messages.Renewed(sent_ms, lost):
            latest = max(sent_ms, member.renewed_ms or 0)
            renewed = replace(member, renewed_ms=latest, foreign_since_ms=None)
            result = _without(renewed, lost, "its lock was lost", now_ms)
        case messages.Fenced():
            result = _fenced(member, now_ms)
        case messages.OwnedSeen(owned):
            result = _owned_seen(member, owned, now_ms)
        case messages.Released(claim):
            result = _without(member, [claim], "", now_ms)[0], []
        case messages.Tick():
            ended = claims_of(member) if lease_is_over(member, now_ms) else []
            troubles = tried_again(member.troubles, now_ms)
            if not ended and troubles == member.troubles:
                return member, []
            aged = replace(member, troubles=troubles)
            result = _without(aged, ended, "its lease ended without a renew", now_ms)
        case _:
            assert_never(event)
    return result


def _without(
    member: MemberState, gone: Iterable[Claim], reason: str, now_ms: int
) -> tuple[MemberState, list[messages.Effect]]:
    """Without those of its claims, a drop for each; what the target still gives is waited for."""
    dropped = [claim for claim in gone if holds(member, claim)]
    if dropped:
        partitions = {claim.partition for claim in dropped}
        held = {p: holding for p, holding in member.held.items() if p not in partitions}
        member = replace(member, held=held)
    drops: list[messages.Effect] = [
        messages.Drop(claim=claim, reason=reason) for claim in sorted(dropped)
    ]
    return _with_waits(member, now_ms), drops


def _with_waits(member: MemberState, now_ms: int) -> MemberState:
    wanted = wanted_partitions(member) - member.held.keys()
    if wanted == member.waiting.keys():
        return member
    fresh = Wait(since_ms=now_ms, retry_ms=now_ms)
    return replace(member, waiting={p: member.waiting.get(p, fresh) for p in sorted(wanted)})


def _fenced(member: MemberState, now_ms: int) -> tuple[MemberState, list[messages.Effect]]:
    outside = replace(
        member,
        joined=False,
        target=None,
        renewed_ms=None,
        drain=Drain.NONE,  # told again when it is a member again
        drain_since=NO_EPOCH,
        drain_heard=NO_EPOCH,
    )
    return _without(outside, claims_of(member), "fenced: not a member any more", now_ms)


def _granted(member: MemberState, claim: Claim, state: HeldState, now_ms: int) -> MemberState:
    present = member.held.get(claim.partition)
    if not member.joined or (present and present.fence >= claim.fence):
        return member
    holding = Holding(fence=claim.fence, state=state, since_ms=now_ms)
    held = {**member.held, claim.partition: holding}
    return _with_waits(replace(member, held=held), now_ms)


def _refused(member: MemberState, event: messages.Refused) -> MemberState:
    holding = member.held.get(event.partition)
    if holding is not None and is_outdated(member, holding):
        later = replace(holding, retry_ms=event.retry_ms)
        return replace(member, held={**member.held, event.partition: later})
    wait = member.waiting.get(event.partition)
    if wait is None:
        return member
    asked = replace(wait, owner=event.owner, why=event.why, retry_ms=event.retry_ms)
    return replace(member, waiting={**member.waiting, event.partition: asked})


def _owned_seen(
    member: MemberState, owned: Mapping[Partition, Held], now_ms: int
) -> tuple[MemberState, list[messages.Effect]]:
    held = dict(member.held)
    lost = []
    for partition, holding in member.held.items():
        seen = owned.get(partition)
        if seen is None or seen.fence != holding.fence:
            lost.append(Claim(partition, holding.fence))
        elif seen.state != holding.state:
            held[partition] = replace(holding, state=seen.state, since_ms=now_ms)
    return _without(_changed(member, held=held), lost, "its grant ended", now_ms)


def _restore_ended(member: MemberState, event: messages.RestoreEnded) -> MemberState:
    if not holds(member, event.claim):
        return member
    holding = replace(
        member.held[event.claim.partition],
        restored=not event.failure,
        restore_ordered=False,
        retry_ms=event.retry_ms,
    )
    return replace(member, held={**member.held, event.claim.partition: holding})


def _trouble_seen(
    member: MemberState,
    event: messages.RestoreEnded | messages.BatchesEnded | messages.StoodStill,
    now_ms: int,
) -> MemberState:
    """What is given up by it is wanted no more, so it is revoked (decisions)."""
    until_ms = now_ms + member.unserved_for_ms
    match event:
        case messages.RestoreEnded():
            troubles = _after_restore(member, event, until_ms)
            member = _restore_ended(member, event)
        case messages.BatchesEnded(failing):
            running = {
                p: holding.fence
                for p, holding in member.held.items()
                if holding.state is HeldState.RUNNING
            }
            troubles = batches_ended(member.troubles, running, failing, until_ms)
        case messages.StoodStill(partition) if partition in member.held:
            why = "nothing of it was committed although there is lag"
            stall = Trouble(reason=UnservedReason.STALL, failures=FAILURES_MAX, why=why)
            troubles = failed(member.troubles, partition, stall, until_ms)
        case messages.StoodStill():
            return member
        case _:
            assert_never(event)
    return _with_waits(_changed(member, troubles=troubles), now_ms)


def _after_restore(
    member: MemberState, event: messages.RestoreEnded, until_ms: int
) -> Mapping[Partition, Trouble]:
    partition, reason = event.claim.partition, UnservedReason.RESTORE
    if not holds(member, event.claim):
        return member.troubles
    if not event.failure:
        return went_well(member.troubles, [partition], reason)
    if not event.is_of_here:
        return member.troubles
    failures = failed_again(member.troubles, partition)
    trouble = Trouble(reason=reason, failures=failures, why=event.failure)
    return failed(member.troubles, partition, trouble, until_ms)


def _target_seen(member: MemberState, event: messages.TargetSeen, now_ms: int) -> MemberState:
    if not member.joined or (member.target and event.row.epoch <= member.target.epoch):
        return member
    return _with_waits(replace(member, target=event.row), now_ms)


def _drain_seen(member: MemberState, drain: Drain, heard: Epoch) -> MemberState:
    """Older words than the last one change nothing; the same again keep the epoch of the first,
    unless the incarnation was raised since: that first word may be lost.
    """
    if not member.joined or heard < member.drain_heard:
        return member
    since = member.drain_since
    if drain is not member.drain or since.incarnation != heard.incarnation:
        since = heard
    return _changed(member, drain=drain, drain_since=since, drain_heard=heard)


def _epochs_seen(
    member: MemberState, incarnation: int, mode_epoch: int, now_ms: int
) -> MemberState:
    if Epoch(incarnation, mode_epoch) <= Epoch(member.incarnation, member.mode_epoch):
        return member
    told = replace(member, incarnation=incarnation, mode_epoch=mode_epoch)
    return _asking_at_once(told, now_ms)


def _asking_at_once(member: MemberState, now_ms: int) -> MemberState:
    waiting = {p: replace(wait, retry_ms=now_ms) for p, wait in member.waiting.items()}
    return replace(member, waiting=waiting)


def restore_ordered(member: MemberState, claim: Claim) -> MemberState:
    """Noted when the restore is handed over, so that it is not ordered twice."""
    if not holds(member, claim):
        return member
    holding = replace(member.held[claim.partition], restore_ordered=True)
    return replace(member, held={**member.held, claim.partition: holding})
