"""A member that hears of a higher incarnation: what it forgets, and what it takes anew."""

import pytest
from msgspec.structs import replace

from assignment.member.decisions import decide
from assignment.member.messages import (
    Acquire,
    DrainSeen,
    EpochsSeen,
    Fenced,
    Granted,
    OwnedSeen,
    Refusal,
    Refused,
    SetState,
    TargetSeen,
)
from assignment.member.state import ConsumerState, next_due_ms
from assignment.types import Claim, Drain, Epoch, Held, HeldState
from tests.assignment.member_states import (
    NOW,
    RESTORING,
    REVOKED,
    REVOKING,
    RUNNING,
    after,
    claim,
    holding,
    member,
    row,
)
from tests.builders import GRACE_MS, fence, partition

OUTDATED = "granted before the incarnation was raised"
ANEW = Acquire(partitions=(partition(0),), reason=OUTDATED)
RAISED = EpochsSeen(2, 1)


def held_as(state: object) -> OwnedSeen:
    return OwnedSeen({partition(0): Held(fence=fence(1), state=state)})  # type: ignore[arg-type]


def test_a_holder_finishes_its_batch_before_it_takes_a_new_fence() -> None:
    state = after(member({0: holding()}, [0]), RAISED)
    assert decide(state, NOW) == [
        SetState(claim=claim(0), expected=RUNNING, state=REVOKING, reason=OUTDATED)
    ]
    state = after(state, held_as(REVOKING))
    assert decide(state, NOW) == []
    assert next_due_ms(state) == NOW + GRACE_MS
    assert decide(after(state, held_as(REVOKED)), NOW) == [ANEW]


def test_what_never_ran_is_left_out_of_batches_first() -> None:
    state = after(member({0: holding(RESTORING)}, [0]), RAISED)
    assert decide(state, NOW) == [
        SetState(
            claim=claim(0), expected=RESTORING, state=REVOKED, reason=f"{OUTDATED} before it ran"
        )
    ]


@pytest.mark.parametrize("known", [RUNNING, REVOKING])
def test_what_ran_finishes_its_batch_though_redis_forgot_that_it_ran(known: HeldState) -> None:
    state = after(member({0: holding(known)}, [0]), RAISED, held_as(RESTORING))
    assert decide(state, NOW) == [
        SetState(claim=claim(0), expected=RESTORING, state=REVOKING, reason=OUTDATED)
    ]


def test_neither_a_dead_consumer_nor_one_beyond_its_grace_is_waited_for() -> None:
    dead = member({0: holding()}, [0], consumer=ConsumerState.DEAD)
    assert decide(after(dead, RAISED), NOW) == [ANEW]
    hangs = after(member({0: holding(REVOKING)}, [0]), RAISED)
    assert decide(hangs, NOW + GRACE_MS - 1) == []
    assert decide(hangs, NOW + GRACE_MS) == [ANEW]


def test_the_new_fence_takes_the_place_of_the_old_one_and_is_restored() -> None:
    new = Claim(partition(0), fence(1, incarnation=2))
    state = after(member({0: holding(REVOKED)}, [0]), RAISED, Granted({new: RESTORING}))
    assert state.held == {partition(0): replace(holding(RESTORING), fence=new.fence)}
    assert state.waiting == {}


def test_a_new_fence_that_was_refused_is_asked_for_again_later() -> None:
    state = after(
        member({0: holding(REVOKED)}, [0]),
        RAISED,
        Refused([Refusal(partition(0), "no_incarnation", NOW + 300)]),
    )
    assert decide(state, NOW + 299) == []
    assert next_due_ms(state) == NOW + 300
    assert decide(state, NOW + 300) == [ANEW]


def test_a_fence_of_the_incarnation_itself_is_kept() -> None:
    new = replace(holding(), fence=fence(1, incarnation=2))
    assert decide(after(member({0: new}, [0]), RAISED), NOW) == []


# --- what is compared -----------------------------------------------------------------------------


def test_a_lower_mode_epoch_under_a_higher_incarnation_counts() -> None:
    state = after(member(mode_epoch=9), EpochsSeen(2, 1))
    assert (state.incarnation, state.mode_epoch) == (2, 1)


def test_a_higher_mode_epoch_under_a_lower_incarnation_is_of_the_past() -> None:
    state = member(incarnation=3, mode_epoch=1)
    assert after(state, EpochsSeen(2, 9)) == state


def test_a_target_counted_anew_is_followed_once_it_was_made_under_a_higher_incarnation() -> None:
    state = member({0: holding()}, [0])
    lost = after(state, TargetSeen(row(epoch=5)))
    assert lost == state, "a Redis that lost the last target: what is held is kept"
    assert after(state, TargetSeen(row(epoch=5, incarnation=2))).target == row(
        epoch=5, incarnation=2
    )


def test_a_drain_word_counted_anew_is_heard_and_its_target_must_know_of_it() -> None:
    state = after(member(), DrainSeen(Drain.LEAVING, Epoch(1, 6)))
    state = after(state, DrainSeen(Drain.NONE, Epoch(2, 3)))
    assert state.drain is Drain.NONE
    again = after(state, DrainSeen(Drain.LEAVING, Epoch(2, 4)))
    assert decide(again, NOW) == [], "its target is of incarnation 1"
    assert decide(after(again, TargetSeen(row(epoch=4, incarnation=2))), NOW) != []


def test_the_highest_incarnation_is_never_forgotten() -> None:
    state = after(member(), EpochsSeen(7, 3), Fenced())
    assert (state.incarnation, state.mode_epoch) == (7, 3)
