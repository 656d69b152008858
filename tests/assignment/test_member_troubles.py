"""What cannot be served here: three failures in a row, given up, told, and tried again."""

import pytest

from assignment.member.decisions import decide
from assignment.member.messages import BatchesEnded, RestoreEnded, StoodStill, Tick
from assignment.member.state import MemberState, unable_because, wanted_partitions
from assignment.member.troubles import FAILURES_MAX, UNSERVED_FOR_MS, Trouble, unserved_of
from assignment.troubles import UNSERVED_MAX, Failing, Unserved, UnservedReason
from assignment.types import HeldState
from tests.assignment.member_states import NOW, RESTORING, after, claim, holding, member
from tests.builders import fence, partition, partitions, settings

BROKEN = RestoreEnded(claim(0), "disk full")
GIVEN_UP = NOW + UNSERVED_FOR_MS


def restoring() -> MemberState:
    return member({0: holding(RESTORING), 1: holding()}, [0, 1])


def failing(failures: int, counter: int = 1) -> BatchesEnded:
    one = Failing(partition=partition(0), fence=fence(counter), failures=failures, why="map full")
    return BatchesEnded((one,))


def states(state: MemberState) -> list[HeldState]:
    return [e.state for e in decide(state, NOW) if hasattr(e, "state")]


def test_a_third_failed_restore_gives_the_partition_up_and_tells_why() -> None:
    twice = after(restoring(), BROKEN, BROKEN)
    assert not unserved_of(twice.troubles, NOW)
    state = after(twice, BROKEN)
    assert unserved_of(state.troubles, NOW) == {
        partition(0): Unserved(
            reason=UnservedReason.RESTORE, left_ms=UNSERVED_FOR_MS, why="disk full"
        )
    }
    assert wanted_partitions(state) == partitions(1)
    assert states(state) == [HeldState.REVOKED]  # on its way to the release
    assert not unable_because(state, NOW)


def test_it_is_not_asked_for_again_until_its_time_is_over() -> None:
    given_up = {partition(0): trouble(GIVEN_UP)}
    state = after(member({}, [0], troubles=given_up, waiting={}), Tick())
    assert not state.waiting
    assert after(state, Tick(), now_ms=GIVEN_UP).waiting.keys() == partitions(0)


def trouble(until_ms: int | None = None) -> Trouble:
    return Trouble(reason=UnservedReason.RESTORE, failures=FAILURES_MAX, until_ms=until_ms)


@pytest.mark.parametrize(
    "between",
    [RestoreEnded(claim(0)), RestoreEnded(claim(0, 2), "disk full")],
    ids=["went well", "of another fence"],
)
def test_only_failures_in_a_row_of_what_is_held_count(between: RestoreEnded) -> None:
    twice = after(restoring(), BROKEN, BROKEN)
    state = after(twice, between)
    assert state.troubles == (twice.troubles if between.failure else {})


def test_a_redis_that_was_away_is_no_fault_of_this_member() -> None:
    away = RestoreEnded(claim(0), "Redis away", is_of_here=False)
    assert not after(restoring(), *[away] * 5).troubles


def test_batches_that_fail_three_times_for_one_partition_give_it_up_alone() -> None:
    state = after(member({0: holding(), 1: holding()}, [0, 1]), failing(2))
    assert not unserved_of(state.troubles, NOW)
    state = after(state, failing(3))
    assert unserved_of(state.troubles, NOW)[partition(0)].reason is UnservedReason.BATCH
    assert states(state) == [HeldState.REVOKING]


def test_what_failed_under_an_older_fence_or_works_again_is_forgotten() -> None:
    state = member({0: holding(counter=2), 1: holding()}, [0, 1])
    assert not after(state, failing(3)).troubles
    assert not after(state, failing(1, counter=2), BatchesEnded(())).troubles


def test_a_partition_that_stands_still_is_given_up_though_it_is_running() -> None:
    state = after(member({0: holding(), 1: holding()}, [0, 1]), StoodStill(partition(0)))
    assert unserved_of(state.troubles, NOW)[partition(0)].reason is UnservedReason.STALL
    assert not after(member(), StoodStill(partition(0))).troubles


def test_the_time_is_counted_from_when_it_was_given_up() -> None:
    state = after(restoring(), BROKEN, BROKEN, BROKEN)
    again = after(state, BROKEN, now_ms=NOW + 1_000)
    assert again.troubles == state.troubles
    assert unserved_of(again.troubles, NOW + 1_000)[partition(0)].left_ms == UNSERVED_FOR_MS - 1_000


def test_with_more_than_can_be_told_the_member_is_unable() -> None:
    many = {partition(n): trouble(GIVEN_UP) for n in range(UNSERVED_MAX + 1)}
    state = member(settings=settings(partitions=200), troubles=many)
    assert len(unserved_of(state.troubles, NOW)) == UNSERVED_MAX
    assert "cannot be served here" in str(unable_because(state, NOW))
