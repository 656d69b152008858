"""How a member goes: asked to leave, or told to by a scale-down."""

from assignment.member.decisions import decide
from assignment.member.messages import (
    Acquire,
    Depart,
    DrainSeen,
    Fenced,
    Join,
    Leave,
    LeaveAsked,
    Release,
    Released,
    SetState,
    TargetSeen,
)
from assignment.member.state import wanted_partitions
from assignment.types import NO_EPOCH, Drain, Epoch
from tests.assignment.member_states import (
    NOW,
    REVOKED,
    REVOKING,
    RUNNING,
    after,
    claim,
    holding,
    member,
    row,
)
from tests.builders import partition, partitions

# --- leaving --------------------------------------------------------------------------------------


def test_leaving_gives_up_everything_and_asks_for_nothing() -> None:
    state = after(member({0: holding()}, [0, 1]), LeaveAsked())
    assert decide(state, NOW) == [
        SetState(claim=claim(0), expected=RUNNING, state=REVOKING, reason="leaving")
    ]
    assert state.waiting == {}


def test_whoever_leaves_and_holds_nothing_is_gone() -> None:
    state = after(member(target=[0]), LeaveAsked())
    assert decide(state, NOW) == [Leave(reason="nothing is held any more")]


def test_a_process_that_stops_gives_everything_up_and_does_not_say_that_it_leaves() -> None:
    state = after(member(), LeaveAsked(stops=True))
    assert (state.leaving, state.stops, state.signalled) == (True, True, False)
    assert decide(state, NOW) == [Leave(reason="nothing is held any more")]


def test_told_to_leave_by_a_scale_down_no_process_of_the_instance_is_expected_back() -> None:
    state = after(member(), told(8), LeaveAsked(stops=True))
    assert (state.stops, state.signalled) == (False, True)


# --- told to leave by a scale-down ----------------------------------------------------------------

LEAVING, FORCED = Drain.LEAVING, Drain.FORCED
GONE = Depart(reason="scale-down: it owns nothing any more")


def told(group_epoch: int, drain: Drain = LEAVING, incarnation: int = 1) -> DrainSeen:
    return DrainSeen(drain, Epoch(incarnation, group_epoch))


def test_a_leaving_member_goes_on_with_what_it_owns() -> None:
    state = after(member({0: holding()}, [0]), told(8))
    assert decide(state, NOW) == []
    assert wanted_partitions(state) == partitions(0)


def test_a_leaving_member_departs_once_a_target_that_knows_of_it_gives_it_nothing() -> None:
    state = after(member(), told(8))
    assert (
        decide(state, NOW) == []
    )  # its target is of epoch 7: the next may have given it something
    assert decide(after(state, TargetSeen(row(epoch=8))), NOW) == [GONE]
    assert decide(after(state, TargetSeen(row(2, epoch=8))), NOW) == [
        Acquire(partitions=(partition(2),), reason="assigned at epoch 8")
    ]


def test_a_leaving_member_departs_when_the_last_partition_is_released() -> None:
    state = after(member({0: holding(REVOKED)}), told(7))
    assert decide(state, NOW) == [
        Release(claim=claim(0), expected=REVOKED, reason="revoked: batch finished")
    ]
    assert decide(after(state, Released([claim(0)])), NOW) == [GONE]


def test_when_its_time_is_over_a_leaving_member_departs_whatever_it_owns() -> None:
    state = after(member({0: holding()}, [0]), told(8), told(9, FORCED))
    assert decide(state, NOW) == [Depart(reason="scale-down: its time is over")]


def test_whoever_departs_is_told_once_and_then_leaves() -> None:
    state = after(member(), told(7), LeaveAsked(signalled=False))
    assert decide(state, NOW) == [Leave(reason="nothing is held any more")]
    assert not state.signalled
    assert after(state, LeaveAsked()).signalled


def test_a_cancelled_scale_down_lets_it_stay() -> None:
    state = after(member(), told(7), told(8, Drain.NONE))
    assert decide(state, NOW) == []
    again = after(state, told(9), TargetSeen(row(epoch=8)))
    assert decide(again, NOW) == []


def test_the_epoch_of_the_first_word_counts_and_older_words_do_not() -> None:
    state = after(
        member(),
        told(8),
        told(11),
        told(10, FORCED),
    )
    assert (state.drain, state.drain_since) == (LEAVING, Epoch(1, 8))


def test_whoever_is_no_member_hears_of_no_scale_down() -> None:
    state = after(member(), told(8), Fenced(), told(9))
    assert (state.drain, state.drain_since) == (Drain.NONE, NO_EPOCH)
    assert decide(state, NOW) == [Join(reason="not a member")]
