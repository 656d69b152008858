"""What a member knows of itself: values only, and the facts that follow from them.

Those that are replaced all the time are Structs: of a dataclass that takes 35 times as long.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec import field

from assignment.member.troubles import UNSERVED_FOR_MS, Troubles, given_up
from assignment.troubles import UNSERVED_MAX
from assignment.types import (
    INCARNATION_STEP,
    NO_EPOCH,
    Claim,
    Drain,
    Epoch,
    GroupSettings,
    HeldState,
    Partition,
    TargetRow,
    UnableReason,
)


class ConsumerState(StrEnum):
    """The agent's judgement of its consumer."""

    STARTING = "starting"
    READY = "ready"
    STALLED = "stalled"  # no batch finished for consumer_stall_ms although there is lag
    DEAD = "dead"  # there is no process, or it let go of its agent


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in this member's hands. `since_ms`: when it came into its state."""

    fence: int
    state: HeldState
    since_ms: int
    restored: bool = False
    restore_ordered: bool = False
    retry_ms: int = 0  # a failed restore, or acquire anew, is tried again from then on


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that the target gives and that is not held yet. `since_ms`: since when it may be
    had, as far as is known; `owner` "": nobody is known. `retry_ms`: then it is asked for, and not
    before `earliest_ms` though somebody says that it may be had.
    """

    since_ms: int
    retry_ms: int
    earliest_ms: int = 0
    owner: str = ""
    why: str = "not asked yet"


class MemberState(msgspec.Struct, frozen=True, kw_only=True):
    """All that a member decides from. `waiting` is always wanted - held, and empty when leaving."""

    settings: GroupSettings
    joined: bool = False
    leaving: bool = False
    signalled: bool = False  # leaving by SIGTERM
    stops: bool = False  # by SIGTERM too, and another process of its instance is expected
    drain: Drain = Drain.NONE
    drain_since: Epoch = NO_EPOCH  # group_epoch of its first word: no earlier target knew of it
    drain_heard: Epoch = NO_EPOCH  # group_epoch of the last word
    incarnation: int = 0  # the highest ever heard of: never forgotten
    mode_epoch: int = 0  # under that incarnation
    identity: str = ""  # of the group, as the dashboard says it; "": it did not
    identity_read: str = ""  # in this agent's Redis
    foreign_since_ms: int | None = None  # since when the two differ
    target: TargetRow | None = None  # None: never told anything; keep what is held
    held: Mapping[Partition, Holding] = field(default_factory=dict)
    waiting: Mapping[Partition, Wait] = field(default_factory=dict)
    consumer: ConsumerState = ConsumerState.STARTING
    stateful: bool = True  # False: the consumer says that nothing is to be restored
    troubles: Troubles = field(default_factory=dict)
    unserved_for_ms: int = UNSERVED_FOR_MS
    renewed_ms: int | None = None  # when the last renew that succeeded was sent


def wanted_partitions(member: MemberState) -> frozenset[Partition]:
    if member.leaving or member.target is None:
        return frozenset()
    return member.target.active - given_up(member.troubles)


def departs_because(member: MemberState) -> str:
    """ "" while a scale-down keeps this member, or when it goes already (learners.md S4, S5)."""
    if member.leaving or member.drain is Drain.NONE:
        return ""
    if member.drain is Drain.FORCED:
        return "scale-down: its time is over"
    row = member.target
    told_since = row is not None and row.epoch >= member.drain_since
    if row is None or not told_since or row.active or member.held:
        return ""
    return "scale-down: it owns nothing any more"


def is_outdated(member: MemberState, holding: Holding) -> bool:
    """Granted before the incarnation was raised: another may have had a newer fence meanwhile."""
    return holding.fence < member.incarnation * INCARNATION_STEP


def claims_of(member: MemberState) -> list[Claim]:
    return [Claim(p, holding.fence) for p, holding in sorted(member.held.items())]


def holds(member: MemberState, claim: Claim) -> bool:
    holding = member.held.get(claim.partition)
    return holding is not None and holding.fence == claim.fence


def processing_end_ms(settings: GroupSettings, sent_ms: int) -> int:
    """When processing must have stopped: 80 % of the lease from before the renew was sent."""
    return sent_ms + settings.lease_ms * 4 // 5


def lease_is_over(member: MemberState, now_ms: int) -> bool:
    """No renew succeeded within the last lease: whatever was held may be another's."""
    if member.renewed_ms is None:
        return True
    return now_ms - member.renewed_ms > member.settings.lease_ms


def is_foreign(member: MemberState, now_ms: int) -> bool:
    """Whether this agent's Redis is not its dashboard's: it has another group of that name, or none
    for a lease; one that was just wiped has none either.
    """
    if member.foreign_since_ms is None:
        return False
    waited_ms = now_ms - member.foreign_since_ms
    return bool(member.identity_read) or waited_ms > member.settings.lease_ms


@dataclass(frozen=True, slots=True)
class Unable:
    reason: UnableReason
    why: str


def unable_because(member: MemberState, now_ms: int) -> Unable | None:
    """None when able to own partitions (coordination.md section 3)."""
    if not member.joined:
        return Unable(UnableReason.NOT_JOINED, "not joined")
    if is_foreign(member, now_ms):
        return Unable(UnableReason.WRONG_REDIS, "this is not the Redis of the dashboard")
    if member.consumer is not ConsumerState.READY:
        return Unable(UnableReason.CONSUMER, f"consumer {member.consumer}")
    if lease_is_over(member, now_ms):
        return Unable(UnableReason.NO_RENEW, "no renew within the last lease")
    if len(given_up(member.troubles)) > UNSERVED_MAX:
        why = f"more than {UNSERVED_MAX} partitions cannot be served here"
        return Unable(UnableReason.UNSERVED, why)
    return _not_acquired(member, now_ms)


def _not_acquired(member: MemberState, now_ms: int) -> Unable | None:
    patience_ms = member.settings.lease_ms + member.settings.grace_ms
    for partition, wait in member.waiting.items():
        if not wait.owner and now_ms - wait.since_ms > patience_ms:
            why = f"{partition} is assigned, free and cannot be acquired: {wait.why}"
            return Unable(UnableReason.NOT_ACQUIRED, why)
    return None


def next_due_ms(member: MemberState) -> int | None:
    """When `decide` may have something new to say although nothing happened; None = never."""
    due = [wait.retry_ms for wait in member.waiting.values()]
    due += [t.until_ms for t in member.troubles.values() if t.until_ms is not None]
    for holding in member.held.values():
        if holding.state is HeldState.REVOKING:
            due.append(holding.since_ms + member.settings.grace_ms)
        elif holding.state is HeldState.RESTORING and not holding.restore_ordered:
            due.append(holding.retry_ms)
        elif holding.state is HeldState.REVOKED and is_outdated(member, holding):
            due.append(holding.retry_ms)  # of an acquire anew
    return min(due, default=None)
