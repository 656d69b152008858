"""What happened -> the member after it. An event that does not fit changes nothing."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from assignment.member import messages
from assignment.member.pacing import asked_apart_ms
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
from assignment.types import NO_EPOCH, Claim, Drain, Epoch, HeldState, Partition

IN_BATCHES = (HeldState.RUNNING, HeldState.REVOKING)
RESTORE_RETRY_MS = 1_000  # before a failed restore is tried again


def handle(
    member: MemberState, event: messages.Event, now_ms: int
) -> tuple[MemberState, list[messages.Drop]]:
    """The member after the event, and what it lost by it without having given it up."""
    after = _AFTER[type(event)](member, event, now_ms)
    why = _LOST_BY.get(type(event))
    if why is None or after.held is member.held:
        return after, []
    gone = (claim for claim in claims_of(member) if not holds(after, claim))
    return after, [messages.Drop(claim=claim, reason=why) for claim in gone]


def _changed(member: MemberState, **values: Any) -> MemberState:
    """The same one where nothing differs: most of what is heard again says what is known."""
    differs = any(getattr(member, name) != value for name, value in values.items())
    return replace(member, **values) if differs else member


# --- what may end a holding -----------------------------------------------------------------------


def _renewed(member: MemberState, event: messages.Renewed, now_ms: int) -> MemberState:
    latest = max(event.sent_ms, member.renewed_ms or 0)
    renewed = replace(member, renewed_ms=latest, foreign_since_ms=None)
    return _without(renewed, event.lost, now_ms)


def _fenced(member: MemberState, event: messages.Fenced, now_ms: int) -> MemberState:
    outside = replace(
        member,
        joined=False,
        target=None,
        renewed_ms=None,
        drain=Drain.NONE,  # told again when it is a member again
        drain_since=NO_EPOCH,
        drain_heard=NO_EPOCH,
    )
    return _without(outside, claims_of(member), now_ms)


def _owned_seen(member: MemberState, event: messages.OwnedSeen, now_ms: int) -> MemberState:
    held = dict(member.held)
    lost = []
    for partition, holding in member.held.items():
        seen = event.owned.get(partition)
        if seen is None or seen.fence != holding.fence:
            lost.append(Claim(partition, holding.fence))
        elif seen.state != holding.state:
            # Only a Redis that lost writes knows as restoring what has run.
            forgot = seen.state is HeldState.RESTORING and holding.state in IN_BATCHES
            held[partition] = replace(
                holding,
                state=seen.state,
                since_ms=now_ms,
                restored=holding.restored or forgot,
            )
    return _without(_changed(member, held=held), lost, now_ms)


def _time_passed(member: MemberState, event: messages.Tick, now_ms: int) -> MemberState:
    ended = claims_of(member) if lease_is_over(member, now_ms) else []
    aged = _changed(member, troubles=tried_again(member.troubles, now_ms))
    return member if aged is member and not ended else _without(aged, ended, now_ms)


def _without(member: MemberState, gone: Iterable[Claim], now_ms: int) -> MemberState:
    """Without those of its claims; what the target still gives is waited for."""
    lost = {claim.partition for claim in gone if holds(member, claim)}
    if lost:
        held = {p: holding for p, holding in member.held.items() if p not in lost}
        member = replace(member, held=held)
    return _with_waits(member, now_ms)


def _with_waits(member: MemberState, now_ms: int) -> MemberState:
    wanted = wanted_partitions(member) - member.held.keys()
    if wanted == member.waiting.keys():
        return member
    fresh = Wait(since_ms=now_ms, retry_ms=now_ms)
    return replace(member, waiting={p: member.waiting.get(p, fresh) for p in sorted(wanted)})


# --- what was asked of Redis ----------------------------------------------------------------------


def _granted(member: MemberState, event: messages.Granted, now_ms: int) -> MemberState:
    held = dict(member.held)
    for (partition, fence), state in event.states.items():
        present = held.get(partition)
        if present is None or present.fence < fence:
            held[partition] = Holding(fence=fence, state=state, since_ms=now_ms)
    if not member.joined or held == member.held:
        return member
    return _with_waits(replace(member, held=held), now_ms)


def _with_holding(member: MemberState, partition: Partition, holding: Holding) -> MemberState:
    return replace(member, held={**member.held, partition: holding})


def _refused(member: MemberState, event: messages.Refused, now_ms: int) -> MemberState:
    held, waiting = dict(member.held), dict(member.waiting)
    earliest_ms = now_ms + asked_apart_ms(len(waiting))
    for partition, why, retry_ms, owner, to_all in event.refusals:
        holding, wait = held.get(partition), waiting.get(partition)
        if holding is not None and is_outdated(member, holding):
            held[partition] = replace(holding, retry_ms=retry_ms)
        elif wait is not None:
            since_ms = now_ms if to_all else wait.since_ms  # what nobody gets tells of no member
            waiting[partition] = Wait(
                since_ms=since_ms,
                retry_ms=max(retry_ms, earliest_ms),
                earliest_ms=earliest_ms,
                owner=owner,
                why=why,
            )
    if (held, waiting) == (member.held, member.waiting):
        return member
    return replace(member, held=held, waiting=waiting)


def _asking_at_once(member: MemberState, now_ms: int) -> MemberState:
    waiting = {
        p: replace(wait, retry_ms=max(now_ms, wait.earliest_ms))
        for p, wait in member.waiting.items()
    }
    return replace(member, waiting=waiting)


def restore_ordered(member: MemberState, claim: Claim) -> MemberState:
    """Noted when the restore is handed over, so that it is not ordered twice."""
    if not holds(member, claim):
        return member
    ordered = replace(member.held[claim.partition], restore_ordered=True)
    return _with_holding(member, claim.partition, ordered)


# --- what fails here; what is given up by it is wanted no more, so it is revoked (decisions) ------


def _restore_ended(member: MemberState, event: messages.RestoreEnded, now_ms: int) -> MemberState:
    partition = event.claim.partition
    if not holds(member, event.claim):
        return _with_waits(member, now_ms)
    holding = replace(
        member.held[partition],
        restored=not event.failure,
        restore_ordered=False,
        retry_ms=now_ms + RESTORE_RETRY_MS if event.failure else 0,
    )
    troubles, reason = member.troubles, UnservedReason.RESTORE
    if not event.failure:
        troubles = went_well(troubles, [partition], reason)
    elif event.is_of_here:
        failures = failed_again(troubles, partition)
        trouble = Trouble(reason=reason, failures=failures, why=event.failure)
        troubles = failed(troubles, partition, trouble, now_ms + member.unserved_for_ms)
    return _with_troubles(_with_holding(member, partition, holding), troubles, now_ms)


def _batches_ended(member: MemberState, event: messages.BatchesEnded, now_ms: int) -> MemberState:
    running = {p: h.fence for p, h in member.held.items() if h.state is HeldState.RUNNING}
    until_ms = now_ms + member.unserved_for_ms
    troubles = batches_ended(member.troubles, running, event.failing, until_ms)
    return _with_troubles(member, troubles, now_ms)


def _stood_still(member: MemberState, event: messages.StoodStill, now_ms: int) -> MemberState:
    if event.partition not in member.held:
        return member
    why = "nothing of it was committed although there is lag"
    stall = Trouble(reason=UnservedReason.STALL, failures=FAILURES_MAX, why=why)
    until_ms = now_ms + member.unserved_for_ms
    return _with_troubles(member, failed(member.troubles, event.partition, stall, until_ms), now_ms)


def _with_troubles(
    member: MemberState, troubles: Mapping[Partition, Trouble], now_ms: int
) -> MemberState:
    return _with_waits(_changed(member, troubles=troubles), now_ms)


# --- what the dashboard, Redis or a signal told ---------------------------------------------------


def _target_seen(member: MemberState, event: messages.TargetSeen, now_ms: int) -> MemberState:
    if not member.joined or (member.target and event.row.epoch <= member.target.epoch):
        return member
    return _with_waits(replace(member, target=event.row), now_ms)


def _epochs_seen(member: MemberState, event: messages.EpochsSeen, now_ms: int) -> MemberState:
    incarnation, mode_epoch = event.incarnation, event.mode_epoch
    if Epoch(incarnation, mode_epoch) <= Epoch(member.incarnation, member.mode_epoch):
        return member
    told = replace(member, incarnation=incarnation, mode_epoch=mode_epoch)
    return _asking_at_once(told, now_ms)


def _identity_heard(member: MemberState, event: messages.IdentityHeard, now_ms: int) -> MemberState:
    return _identified(member, event.identity or member.identity, member.identity_read, None)


def _identity_read(member: MemberState, event: messages.IdentityRead, now_ms: int) -> MemberState:
    return _identified(member, member.identity, event.identity, now_ms)


def _identified(member: MemberState, heard: str, read: str, since_ms: int | None) -> MemberState:
    if member.foreign_since_ms is not None:
        since_ms = member.foreign_since_ms
    is_foreign = bool(heard) and heard != read
    return _changed(
        member,
        identity=heard,
        identity_read=read,
        foreign_since_ms=since_ms if is_foreign else None,
    )


def _drain_seen(member: MemberState, event: messages.DrainSeen, now_ms: int) -> MemberState:
    """Older words than the last one change nothing; the same again keep the epoch of the first,
    unless the incarnation was raised since: that first word may be lost.
    """
    drain, heard, since = event.drain, event.heard, member.drain_since
    if not member.joined or heard < member.drain_heard:
        return member
    if drain is not member.drain or since.incarnation != heard.incarnation:
        since = heard
    return _changed(member, drain=drain, drain_since=since, drain_heard=heard)


def _leave_asked(member: MemberState, event: messages.LeaveAsked, now_ms: int) -> MemberState:
    stops = event.stops and not member.leaving and member.drain is Drain.NONE
    signalled = member.signalled or (event.signalled and not stops)
    return replace(
        member, leaving=True, signalled=signalled, stops=stops or member.stops, waiting={}
    )


_AFTER: Mapping[type, Callable[[MemberState, Any, int], MemberState]] = {
    messages.Joined: lambda member, event, now_ms: replace(member, joined=True),
    messages.EpochsSeen: _epochs_seen,
    messages.IdentityHeard: _identity_heard,
    messages.IdentityRead: _identity_read,
    messages.TargetSeen: _target_seen,
    messages.SettingsSeen: lambda member, event, now_ms: replace(member, settings=event.settings),
    messages.Renewed: _renewed,
    messages.Fenced: _fenced,
    messages.Granted: _granted,
    messages.Refused: _refused,
    messages.TryAgain: lambda member, event, now_ms: _asking_at_once(member, now_ms),
    messages.RestoreEnded: _restore_ended,
    messages.BatchesEnded: _batches_ended,
    messages.StoodStill: _stood_still,
    messages.OwnedSeen: _owned_seen,
    messages.Released: lambda member, event, now_ms: _without(member, event.claims, now_ms),
    messages.ConsumerSeen: lambda member, event, now_ms: replace(
        member, consumer=event.state, stateful=event.stateful
    ),
    messages.DrainSeen: _drain_seen,
    messages.LeaveAsked: _leave_asked,
    messages.Tick: _time_passed,
}
_LOST_BY: Mapping[type, str] = {
    messages.Renewed: "its lock was lost",
    messages.Fenced: "fenced: not a member any more",
    messages.OwnedSeen: "its grant ended",
    messages.Tick: "its lease ended without a renew",
}
