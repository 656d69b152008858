"""Bugs to be planted into locks, batches, members and targets; see planting.py."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

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
from tests.simulation.planting import Patch, instead_of, planted

NEVER_MS = 10**9

planted(": commit under ", "redis_clock_is_set")(script_bugs.commit_without_fence_check)
planted(" is not (1")(script_bugs.commit_without_offset_check)
planted(": no event ")(script_bugs.commit_of_what_another_server_had)
planted("'s too")(script_bugs.acquire_with_fence_reused)
planted(" runs set() of ")(script_bugs.acquire_gives_a_stale_own_lock_back)
planted(" is not above ")(script_bugs.acquire_under_any_run)
planted("last granted is 0")(script_bugs.release_that_resets_the_counter)
planted(": renewed by ")(script_bugs.renew_that_takes_back)
planted("by its own join")(script_bugs.join_taken_as_new)
planted("after a sign of life")(script_bugs.evict_without_beat_check)
planted(" by coordinator ")(script_bugs.set_target_without_epochs)


@instead_of(decisions, "_revoke", "with a batch in hand")
def release_before_the_batch_ended(
    revoke: Any, member: MemberState, claim: Claim, holding: Holding, now_ms: int
) -> list[Effect]:
    if holding.state is HeldState.RUNNING:
        return [Release(claim=claim, expected=holding.state, reason="revoked")]
    return list(revoke(member, claim, holding, now_ms))


@planted("the effects of other events")
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


@planted("held = target")
def refused_and_never_asked_again(patch: Patch) -> None:
    """Who has to wait for another's lock waits for ever."""
    patch.setattr(membership, "ACQUIRE_RETRY_MS", (NEVER_MS, NEVER_MS))
    patch.setattr(transitions, "_asking_at_once", lambda member, now_ms: member)


@instead_of(reading, "claims", " suffice")
def coordinator_that_forgets_locks(claims: Any, view: Any, unable: Any, **how: bool) -> Any:
    """It plans from reports alone: who was granted something since is not known to have it."""
    return claims(replace(view, locks={}), unable, **how)
