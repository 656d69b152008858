"""Bugs to be planted into locks, batches, members and targets; see planting.py."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent import membership
from agent.membership import Membership
from assignment.coordinator import reading
from assignment.member import decisions, transitions
from assignment.member.messages import Effect, Release, RestoreEnded
from assignment.member.state import Holding, MemberState
from assignment.types import Claim, HeldState, Partition
from tests.fakes import script_bugs
from tests.simulation.agents import SimAgent
from tests.simulation.consumer import SimConsumer

Patch = pytest.MonkeyPatch
NEVER_MS = 10**9


# --- agents and consumers -------------------------------------------------------------------------


def release_before_the_batch_ended(patch: Patch) -> None:
    revoke = decisions._revoke

    def hasty(member: MemberState, claim: Claim, holding: Holding, now_ms: int) -> list[Effect]:
        if holding.state is HeldState.RUNNING:
            return [Release(claim=claim, expected=holding.state, reason="revoked")]
        return revoke(member, claim, holding, now_ms)

    patch.setattr(decisions, "_revoke", hasty)


def progress_read_before_the_claim(patch: Patch) -> None:
    """A replica is brought up when its partition is asked for first, and trusted when it is
    granted, however long that took.
    """
    acquire, order = Membership._acquire, SimAgent.order
    early: set[tuple[str, Partition]] = set()

    def acquire_after(self: Any, partitions: Sequence[Partition], reason: str) -> None:
        for partition in partitions:
            first = (self.member_id, partition) not in early
            if first and isinstance(self.replicas, SimAgent):
                early.add((self.member_id, partition))
                bring_up(self.replicas, Claim(partition, 0))
        acquire(self, partitions, reason)

    def order_nothing(self: SimAgent, claim: Claim) -> None:
        early.discard((self.member_id, claim.partition))
        order(self, claim)

    bring_up = SimAgent.bring_up
    patch.setattr(Membership, "_acquire", acquire_after)
    patch.setattr(SimAgent, "order", order_nothing)
    patch.setattr(SimAgent, "bring_up", lambda self, claim: RestoreEnded(claim))
    patch.setattr(SimConsumer, "_stands_at", lambda self, partition, offset: True)


def refused_and_never_asked_again(patch: Patch) -> None:
    """Who has to wait for another's lock waits for ever."""
    patch.setattr(membership, "ACQUIRE_RETRY_MS", (NEVER_MS, NEVER_MS))
    patch.setattr(transitions, "_asking_at_once", lambda member, now_ms: member)


def coordinator_that_forgets_locks(patch: Patch) -> None:
    """It plans from reports alone: who was granted something since is not known to have it."""
    claims = reading.claims
    patch.setattr(
        reading,
        "claims",
        lambda view, unable, **how: claims(replace(view, locks={}), unable, **how),
    )


# As in planting.Planted.
PLANTED: dict[Callable[[Patch], None], tuple[tuple[str, ...], str]] = {
    script_bugs.commit_without_fence_check: (("redis_clock_is_set",), ": commit under "),
    script_bugs.commit_without_offset_check: ((), " is not (1"),
    script_bugs.commit_of_what_another_server_had: ((), ": no event "),
    script_bugs.acquire_with_fence_reused: ((), "'s too"),
    script_bugs.acquire_gives_a_stale_own_lock_back: ((), " runs set() of "),
    script_bugs.acquire_under_any_run: ((), " is not above "),
    script_bugs.release_that_resets_the_counter: ((), "last granted is 0"),
    script_bugs.renew_that_takes_back: ((), ": renewed by "),
    script_bugs.join_taken_as_new: ((), "by its own join"),
    script_bugs.evict_without_beat_check: ((), "after a sign of life"),
    script_bugs.set_target_without_epochs: ((), " by coordinator "),
    release_before_the_batch_ended: ((), "with a batch in hand"),
    progress_read_before_the_claim: ((), "the effects of other events"),
    refused_and_never_asked_again: ((), "held = target"),
    coordinator_that_forgets_locks: ((), " suffice"),
}
