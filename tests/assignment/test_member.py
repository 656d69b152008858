"""One member's decisions, from joining to losing: a sentence for each transition."""

from typing import Any

import pytest
from msgspec.structs import replace

from assignment.member import messages, transitions
from assignment.member.decisions import decide
from assignment.member.state import (
    ConsumerState,
    MemberState,
    Wait,
    claims_of,
    next_due_ms,
    processing_end_ms,
    unable_because,
    wanted_partitions,
)
from assignment.member.transitions import RESTORE_RETRY_MS, handle, restore_ordered
from assignment.types import Held, HeldState
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
from tests.builders import GRACE_MS, LEASE_MS, fence, partition, partitions, settings


def why_unable(state: MemberState, now_ms: int) -> str:
    because = unable_because(state, now_ms)
    return because.why if because else ""


# --- joining --------------------------------------------------------------------------------------


def test_whoever_is_no_member_joins() -> None:
    assert decide(MemberState(settings=settings()), NOW) == [messages.Join(reason="not a member")]


def test_whoever_is_no_member_and_leaves_does_nothing() -> None:
    assert decide(MemberState(settings=settings(), leaving=True), NOW) == []


def test_a_member_without_a_target_keeps_what_it_holds() -> None:
    assert decide(member({0: holding()}, target=None), NOW) == []


def test_nothing_is_acquired_before_a_renew_succeeded() -> None:
    assert decide(member(target=[0], renewed_ms=None), NOW) == []


# --- from target to running -----------------------------------------------------------------------


def test_an_assigned_partition_is_acquired() -> None:
    assert decide(member(target=[1, 0]), NOW) == [
        messages.Acquire(partitions=(partition(1), partition(0)), reason="assigned at epoch 7")
    ]


def test_a_granted_partition_is_restored() -> None:
    state = after(member(target=[0]), messages.Granted({claim(0): RESTORING}))
    assert state.held == {partition(0): holding(RESTORING)}
    assert state.waiting == {}
    assert decide(state, NOW) == [messages.Restore(claim=claim(0), reason="acquired")]


def test_a_restore_is_ordered_once() -> None:
    state = restore_ordered(member({0: holding(RESTORING)}, [0]), claim(0))
    assert decide(state, NOW) == []


def test_a_restored_partition_runs() -> None:
    state = after(member({0: holding(RESTORING)}, [0]), messages.RestoreEnded(claim(0)))
    assert decide(state, NOW) == [
        messages.SetState(claim=claim(0), expected=RESTORING, state=RUNNING, reason="restored")
    ]


def test_without_state_a_partition_runs_at_once() -> None:
    state = member({0: holding(RESTORING)}, [0], stateful=False)
    assert decide(state, NOW) == [
        messages.SetState(
            claim=claim(0), expected=RESTORING, state=RUNNING, reason="nothing to restore"
        )
    ]


def test_a_failed_restore_is_ordered_again_later() -> None:
    ordered = restore_ordered(member({0: holding(RESTORING)}, [0]), claim(0))
    state = after(ordered, messages.RestoreEnded(claim(0), "disk full"))
    assert decide(state, NOW + RESTORE_RETRY_MS - 1) == []
    assert decide(state, NOW + RESTORE_RETRY_MS) == [
        messages.Restore(claim=claim(0), reason="acquired")
    ]
    assert next_due_ms(state) == NOW + RESTORE_RETRY_MS


def test_granted_again_after_a_lost_reply_it_runs_on() -> None:
    state = after(member(target=[0]), messages.Granted({claim(0): RUNNING}))
    assert decide(state, NOW) == []


def refused(*refusal: Any, **more: Any) -> messages.Refused:
    return messages.Refused([messages.Refusal(*refusal, **more)])


def test_a_held_partition_is_asked_for_again_later_and_its_owner_is_known() -> None:
    event = refused(partition(0), "waiting for b", NOW + 300, owner="b")
    state = after(member(target=[0]), event)
    assert decide(state, NOW + 299) == []
    assert state.waiting[partition(0)] == Wait(
        since_ms=NOW, retry_ms=NOW + 300, earliest_ms=NOW, owner="b", why="waiting for b"
    )
    assert next_due_ms(state) == NOW + 300
    assert len(decide(state, NOW + 300)) == 1


@pytest.mark.parametrize(("waiting", "apart_ms"), [(1, 0), (10, 2), (100, 200), (1_000, 5_000)])
def test_who_waits_for_many_asks_for_all_of_them_less_often_whatever_it_hears(
    waiting: int, apart_ms: int
) -> None:
    asked = member(target=range(waiting))
    refusals = [messages.Refusal(partition(n), "waiting for b", NOW) for n in range(waiting)]
    state = after(asked, messages.Refused(refusals), messages.TryAgain())
    assert next_due_ms(state) == NOW + apart_ms
    assert not apart_ms or decide(state, NOW + apart_ms - 1) == []
    [effect] = decide(state, NOW + apart_ms)
    assert isinstance(effect, messages.Acquire)
    assert len(effect.partitions) == waiting


def test_a_new_incarnation_and_a_released_lock_are_followed_at_once() -> None:
    state = after(member(target=[0]), refused(partition(0), "no_incarnation", NOW + 300))
    assert len(decide(after(state, messages.EpochsSeen(2, 1)), NOW)) == 1
    assert len(decide(after(state, messages.TryAgain()), NOW)) == 1


def test_epochs_that_are_behind_change_nothing() -> None:
    state = member(incarnation=3, mode_epoch=2)
    assert after(state, messages.EpochsSeen(2, 2), messages.EpochsSeen(3, 1)) == state


# --- both in the old and the new assignment -------------------------------------------------------


def test_what_is_in_both_assignments_is_not_touched() -> None:
    state = after(
        member({0: holding(), 1: holding()}, [0, 1]), messages.TargetSeen(row(0, 2, epoch=8))
    )
    assert decide(state, NOW) == [
        messages.SetState(claim=claim(1), expected=RUNNING, state=REVOKING, reason="revoked"),
        messages.Acquire(partitions=(partition(2),), reason="assigned at epoch 8"),
    ]


@pytest.mark.parametrize("epoch", [6, 7])
def test_a_late_or_repeated_target_changes_nothing(epoch: int) -> None:
    state = member({0: holding()}, [0])
    assert after(state, messages.TargetSeen(row(epoch=epoch))) == state


def test_a_target_of_a_newer_incarnation_counts_although_its_epoch_is_lower() -> None:
    state = after(member({0: holding()}, [0]), messages.TargetSeen(row(1, epoch=3, incarnation=2)))
    assert wanted_partitions(state) == partitions(1)


# --- revoking -------------------------------------------------------------------------------------


def test_a_revoked_partition_that_never_ran_is_drained_by_compare_and_set_then_released() -> None:
    """It may run already: a `running` was written, and its answer was lost."""
    state = member({0: holding(RESTORING)})
    assert decide(state, NOW) == [
        messages.SetState(
            claim=claim(0), expected=RESTORING, state=REVOKED, reason="revoked before it ran"
        )
    ]
    owned = messages.OwnedSeen({partition(0): Held(fence=fence(1), state=REVOKED)})
    assert decide(after(state, owned), NOW) == [
        messages.Release(claim=claim(0), expected=REVOKED, reason="revoked: batch finished")
    ]


def test_revoked_while_its_running_was_written_unheard_it_drains() -> None:
    owned = messages.OwnedSeen({partition(0): Held(fence=fence(1), state=RUNNING)})
    state = after(member({0: holding(RESTORING)}), owned)
    assert decide(state, NOW) == [
        messages.SetState(claim=claim(0), expected=RUNNING, state=REVOKING, reason="revoked")
    ]


def test_given_back_before_it_ran_it_is_restored() -> None:
    given_back = after(member({0: holding(REVOKED)}), messages.TargetSeen(row(0, epoch=8)))
    assert decide(given_back, NOW) == [
        messages.SetState(
            claim=claim(0), expected=REVOKED, state=RESTORING, reason="given back before it ran"
        )
    ]


def test_a_draining_partition_is_waited_for_until_the_grace_is_over() -> None:
    state = member({0: holding(REVOKING)})
    assert decide(state, NOW + GRACE_MS - 1) == []
    assert next_due_ms(state) == NOW + GRACE_MS
    assert decide(state, NOW + GRACE_MS) == [
        messages.Release(claim=claim(0), expected=REVOKING, reason="revoked: the grace is over")
    ]


def test_a_drained_partition_is_released() -> None:
    owned = messages.OwnedSeen({partition(0): Held(fence=fence(1), state=REVOKED)})
    state = after(member({0: holding(REVOKING)}), owned)
    assert decide(state, NOW) == [
        messages.Release(claim=claim(0), expected=REVOKED, reason="revoked: batch finished")
    ]


@pytest.mark.parametrize("state", [RESTORING, RUNNING, REVOKING, REVOKED])
def test_what_a_dead_consumer_held_is_released(state: HeldState) -> None:
    dead = member({0: holding(state)}, consumer=ConsumerState.DEAD)
    assert decide(dead, NOW) == [
        messages.Release(claim=claim(0), expected=state, reason="revoked: its consumer is dead")
    ]


@pytest.mark.parametrize("state", [REVOKING, REVOKED])
def test_given_back_while_draining_it_runs_again(state: HeldState) -> None:
    ran = member({0: holding(state, restored=True)})
    given_back = after(ran, messages.TargetSeen(row(0, epoch=8)))
    assert decide(given_back, NOW) == [
        messages.SetState(
            claim=claim(0), expected=state, state=RUNNING, reason="given back while it was revoked"
        )
    ]


def test_released_it_is_no_longer_held() -> None:
    assert after(member({0: holding(REVOKED)}), messages.Released([claim(0)])).held == {}


# --- losing ---------------------------------------------------------------------------------------


def test_a_lock_that_renew_did_not_find_is_dropped_and_acquired_anew() -> None:
    state, effects = handle(
        member({0: holding(), 1: holding()}, [0, 1]),
        messages.Renewed(NOW, frozenset({claim(0)})),
        NOW,
    )
    assert effects == [messages.Drop(claim=claim(0), reason="its lock was lost")]
    assert claims_of(state) == [claim(1)]
    assert decide(state, NOW) == [
        messages.Acquire(partitions=(partition(0),), reason="assigned at epoch 7")
    ]


def test_fenced_it_drops_everything_and_joins_anew() -> None:
    state, effects = handle(member({0: holding(), 1: holding()}, [0, 1, 2]), messages.Fenced(), NOW)
    assert [type(effect) for effect in effects] == [messages.Drop, messages.Drop]
    assert (state.held, state.waiting, state.target) == ({}, {}, None)
    assert decide(state, NOW) == [messages.Join(reason="not a member")]


def test_after_a_lease_without_a_renew_nothing_is_held() -> None:
    held = member({0: holding()}, [0])
    assert after(held, messages.Tick(), now_ms=NOW + LEASE_MS) == held
    state, effects = handle(held, messages.Tick(), NOW + LEASE_MS + 1)
    assert effects == [messages.Drop(claim=claim(0), reason="its lease ended without a renew")]
    assert state.held == {}


def test_a_grant_that_redis_does_not_know_is_dropped() -> None:
    other = Held(fence=fence(2), state=RUNNING)
    state, effects = handle(
        member({0: holding()}, [0]), messages.OwnedSeen({partition(0): other}), NOW
    )
    assert effects == [messages.Drop(claim=claim(0), reason="its grant ended")]
    assert state.waiting.keys() == partitions(0)


@pytest.mark.parametrize(
    "event",
    [
        messages.Released([claim(0, 2)]),
        messages.RestoreEnded(claim(0, 2)),
        messages.Renewed(NOW, frozenset({claim(0, 2), claim(5)})),
        messages.Granted({claim(0, 1): RESTORING}),
        refused(partition(0), "late", NOW),
        messages.Tick(),
        messages.TryAgain(),
    ],
)
def test_an_event_about_another_fence_changes_nothing(event: messages.Event) -> None:
    state = member({0: holding()}, [0])
    assert handle(state, event, NOW) == (state, [])


# --- the consumer ---------------------------------------------------------------------------------


def test_a_stalled_consumer_is_restarted() -> None:
    state = after(member(), messages.ConsumerSeen(ConsumerState.STALLED))
    assert [type(effect) for effect in decide(state, NOW)] == [messages.RestartConsumer]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"joined": False}, "not joined"),
        ({"consumer": ConsumerState.STARTING}, "consumer starting"),
        ({"consumer": ConsumerState.DEAD}, "consumer dead"),
        ({"consumer": ConsumerState.STALLED}, "consumer stalled"),
        ({"renewed_ms": None}, "no renew within the last lease"),
        ({"renewed_ms": NOW - LEASE_MS - 1}, "no renew within the last lease"),
    ],
)
def test_able_needs_a_ready_consumer_and_a_renew(changes: dict[str, object], why: str) -> None:
    assert why_unable(replace(member(), **changes), NOW) == why  # type: ignore[arg-type]


def test_a_free_partition_that_cannot_be_acquired_makes_unable_after_lease_and_grace() -> None:
    state = member(target=[0])
    late = NOW + LEASE_MS + GRACE_MS
    renewed = replace(state, renewed_ms=late)
    assert why_unable(renewed, late) == ""
    assert why_unable(renewed, late + 1).startswith("flights:0 is assigned, free")


def test_waiting_for_an_owner_never_makes_unable() -> None:
    state = after(member(target=[0]), refused(partition(0), "waiting for b", NOW, owner="b"))
    late = NOW + 1_000_000
    assert why_unable(replace(state, renewed_ms=late), late) == ""


def test_what_nobody_is_granted_makes_unable_only_from_when_it_may_be_had() -> None:
    late = NOW + LEASE_MS + GRACE_MS
    event = refused(partition(0), "no_incarnation", late, to_all=True)
    state = after(member(target=[0], renewed_ms=late), event, now_ms=late)
    assert why_unable(state, late + 1) == ""
    assert why_unable(replace(state, renewed_ms=2 * late), 2 * late).startswith("flights:0 is")


def test_processing_ends_at_four_fifths_of_the_lease() -> None:
    assert processing_end_ms(settings(lease_ms=10_000), NOW) == NOW + 8_000


def test_every_event_has_its_transition() -> None:
    events = {
        c for c in vars(messages).values() if isinstance(c, type) and issubclass(c, messages.Event)
    }
    assert transitions._AFTER.keys() == events - {messages.Event}
