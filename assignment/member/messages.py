"""What can happen to a member (events) and what it can decide to do (effects)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assignment.member.state import ConsumerState
from assignment.troubles import Failing
from assignment.types import (
    Claim,
    Drain,
    Epoch,
    GroupSettings,
    Held,
    HeldState,
    Partition,
    TargetRow,
)

# --- events ---------------------------------------------------------------------------------------


class Event:
    """Something that happened; transitions.py says what it changes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Joined(Event):
    """The dashboard took this member in."""


@dataclass(frozen=True, slots=True)
class EpochsSeen(Event):
    """From a reply or a renew: under what an acquire must be asked."""

    incarnation: int
    mode_epoch: int


@dataclass(frozen=True, slots=True)
class IdentityHeard(Event):
    """Of the group, from the dashboard."""

    identity: str


@dataclass(frozen=True, slots=True)
class IdentityRead(Event):
    """Of the group, in the Redis that this agent reads; "": it has none."""

    identity: str


@dataclass(frozen=True, slots=True)
class TargetSeen(Event):
    """This member's row of the target, by heartbeat or read in Redis."""

    row: TargetRow


@dataclass(frozen=True, slots=True)
class SettingsSeen(Event):
    settings: GroupSettings


@dataclass(frozen=True, slots=True)
class Renewed(Event):
    """A renew sent at `sent_ms` succeeded; these claims were no longer locked by this member."""

    sent_ms: int
    lost: frozenset[Claim] = frozenset()


@dataclass(frozen=True, slots=True)
class Fenced(Event):
    """This member is not a member any more: drop everything, join anew."""


class Refusal(NamedTuple):
    """Not granted; asked again from `retry_ms` on. `to_all`: nobody is granted anything now."""

    partition: Partition
    why: str
    retry_ms: int
    owner: str = ""
    to_all: bool = False


@dataclass(frozen=True, slots=True)
class Granted(Event):
    """By one acquire. All at once: one by one, each would cost as much as all that is held."""

    states: Mapping[Claim, HeldState]


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """By one acquire; as Granted, all at once."""

    refusals: Sequence[Refusal]


@dataclass(frozen=True, slots=True)
class TryAgain(Event):
    """A lock was given up somewhere, or an incarnation was set: ask for what is waited for now."""


@dataclass(frozen=True, slots=True)
class RestoreEnded(Event):
    """The partition's state stands at the committed offset, or `failure` says why it does not."""

    claim: Claim
    failure: str = ""
    is_of_here: bool = True  # False: Redis was away, which is no fault of this member's


@dataclass(frozen=True, slots=True)
class BatchesEnded(Event):
    """What the consumer says failed in its last batches; whatever else runs did not."""

    failing: tuple[Failing, ...]


@dataclass(frozen=True, slots=True)
class StoodStill(Event):
    """Batches finished, but nothing of this partition for consumer_stall_ms despite its lag."""

    partition: Partition


@dataclass(frozen=True, slots=True)
class OwnedSeen(Event):
    """All of this member's `owned` in Redis: the truth about states."""

    owned: Mapping[Partition, Held]


@dataclass(frozen=True, slots=True)
class Released(Event):
    """Released now, or found not ours: either way no longer held."""

    claims: Collection[Claim]


@dataclass(frozen=True, slots=True)
class ConsumerSeen(Event):
    state: ConsumerState
    stateful: bool = True


@dataclass(frozen=True, slots=True)
class DrainSeen(Event):
    """What a scale-down asks of this member, as of that group_epoch, by heartbeat or in Redis."""

    drain: Drain
    heard: Epoch


@dataclass(frozen=True, slots=True)
class LeaveAsked(Event):
    """This member goes, whoever takes its partitions. `signalled`: by SIGTERM, so that it says of
    itself that it is leaving and forced; a scale-down said it before. `stops`: only this process
    does; its instance is expected back, so it says nothing, unless a scale-down wants it to leave.
    """

    signalled: bool = True
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """No longer ours by an event, nothing to give back: stop restoring it, say so."""

    claim: Claim
    reason: str


# --- effects --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquire:
    partitions: tuple[Partition, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    claim: Claim
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetState:
    """Compare-and-set in `owned`: MarkRunning, Drain and Resume are this with other states."""

    claim: Claim
    expected: HeldState
    state: HeldState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Compare-and-delete, as SetState."""

    claim: Claim
    expected: HeldState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartConsumer:
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Depart:
    """A scale-down lets this member go: end the consumer, then leave."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    reason: str


Effect = Join | Acquire | Restore | SetState | Release | RestartConsumer | Depart | Leave
