"""Which copies of state a member keeps, and for which learners it calls for a rebalance."""

from dataclasses import replace

import pytest

from assignment.member import (
    Granted,
    Holding,
    LeaveAsked,
    MemberState,
    Refused,
    Released,
    Wait,
    handle,
    ready_learners,
    wanted_copies,
)
from assignment.types import Claim, HeldState, Role, TargetRow
from tests.builders import fence, partition, partitions, settings

NOW = 50_000
OWNER, STANDBY, LEARNER = Role.OWNER, Role.STANDBY, Role.LEARNER


def member(**changes: object) -> MemberState:
    """Owns 0, waits for 1, is standby of 2, learns 3."""
    row = TargetRow(
        target_epoch=7, active=partitions(0, 1), standby=partitions(2), learning=partitions(3)
    )
    running = Holding(fence=fence(1), state=HeldState.RUNNING, since_ms=NOW)
    state = MemberState(
        settings=settings(stateful=True, acceptable_lag_records=9, learn_partial_rebalance=False),
        joined=True,
        target=row,
        held={partition(0): running},
        waiting={partition(1): Wait(since_ms=NOW, retry_ms=NOW)},
    )
    return replace(state, **changes)  # type: ignore[arg-type]


def copies(state: MemberState) -> dict[int, Role]:
    return {p.number: role for p, role in wanted_copies(state).copies.items()}


def test_what_it_is_given_and_waits_for_is_kept_up_too() -> None:
    assert copies(member()) == {1: OWNER, 2: STANDBY, 3: LEARNER}
    wanted = wanted_copies(member())
    assert wanted.held == partitions(0)
    assert (wanted.acceptable_lag_records, wanted.eager) == (9, False)


def test_what_it_holds_is_no_copy_until_it_is_released() -> None:
    row = TargetRow(target_epoch=8, standby=partitions(0))
    state = member(target=row, waiting={})
    assert copies(state) == {}
    released, _ = handle(state, Released(Claim(partition(0), fence(1))), NOW)
    assert copies(released) == {0: STANDBY}
    assert wanted_copies(released).held == frozenset()


def test_acquired_it_is_held_and_no_copy_any_more() -> None:
    waiting, _ = handle(member(), Refused(partition(1), "waiting for b", NOW, "b"), NOW)
    assert copies(waiting)[1] is OWNER
    claim = Claim(partition(1), fence(2))
    granted, _ = handle(waiting, Granted(claim, HeldState.RESTORING), NOW)
    assert copies(granted) == {2: STANDBY, 3: LEARNER}
    assert wanted_copies(granted).held == partitions(0, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": settings(stateful=False)},
        {"target": None, "waiting": {}},
    ],
)
def test_in_a_group_without_state_or_a_target_nothing_is_kept(changes: dict[str, object]) -> None:
    assert copies(member(**changes)) == {}


def test_a_consumer_without_state_has_learners_that_lack_nothing() -> None:
    state = member(stateful=False)
    assert copies(state) == {1: OWNER, 2: STANDBY, 3: LEARNER}
    assert not wanted_copies(state).stateful


def test_whoever_goes_keeps_no_copies() -> None:
    state, _ = handle(member(), LeaveAsked(), NOW)
    assert copies(state) == {}


P, Q, R = (partition(n) for n in range(3))


@pytest.mark.parametrize(
    ("caught_up", "called", "eager", "ready"),
    [
        ({}, (), True, ()),
        ({P: True, Q: False}, (), True, (P,)),
        ({P: True, Q: False}, (), False, ()),
        ({P: True, Q: True}, (), False, (P, Q)),
        ({P: True, Q: True, R: False}, (P, Q), False, (P, Q)),  # R came when both had called
        ({P: False, Q: True, R: False}, (P, Q), False, (Q,)),  # P's copy was lost
        ({P: False}, (P,), True, ()),
        ({Q: True}, (P,), False, (Q,)),
    ],
)
def test_learners_are_called_ready(caught_up, called, eager, ready) -> None:  # type: ignore[no-untyped-def]
    assert ready_learners(caught_up, frozenset(called), eager=eager) == frozenset(ready)
