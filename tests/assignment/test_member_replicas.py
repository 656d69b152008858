"""Which replicas of state a member keeps, and for which learners it calls for a rebalance."""

import pytest
from msgspec.structs import replace

from assignment.member.messages import Granted, LeaveAsked, Refusal, Refused, Released
from assignment.member.replicas import ready_learners, wanted_replicas
from assignment.member.state import Holding, MemberState, Wait
from assignment.member.transitions import handle
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


def replicas(state: MemberState) -> dict[int, Role]:
    return {p.number: role for p, role in wanted_replicas(state).replicas.items()}


def test_what_it_is_given_and_waits_for_is_kept_up_too() -> None:
    assert replicas(member()) == {1: OWNER, 2: STANDBY, 3: LEARNER}
    wanted = wanted_replicas(member())
    assert wanted.held == partitions(0)
    assert (wanted.acceptable_lag_records, wanted.eager) == (9, False)


def test_what_it_holds_is_no_replica_until_it_is_released() -> None:
    row = TargetRow(target_epoch=8, standby=partitions(0))
    state = member(target=row, waiting={})
    assert replicas(state) == {}
    released, _ = handle(state, Released([Claim(partition(0), fence(1))]), NOW)
    assert replicas(released) == {0: STANDBY}
    assert wanted_replicas(released).held == frozenset()


def test_acquired_it_is_held_and_no_replica_any_more() -> None:
    refusal = Refusal(partition(1), "waiting for b", NOW, "b")
    waiting, _ = handle(member(), Refused([refusal]), NOW)
    assert replicas(waiting)[1] is OWNER
    claim = Claim(partition(1), fence(2))
    granted, _ = handle(waiting, Granted({claim: HeldState.RESTORING}), NOW)
    assert replicas(granted) == {2: STANDBY, 3: LEARNER}
    assert wanted_replicas(granted).held == partitions(0, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": settings(stateful=False)},
        {"target": None, "waiting": {}},
    ],
)
def test_in_a_group_without_state_or_a_target_nothing_is_kept(changes: dict[str, object]) -> None:
    assert replicas(member(**changes)) == {}


def test_a_consumer_without_state_has_learners_that_lack_nothing() -> None:
    state = member(stateful=False)
    assert replicas(state) == {1: OWNER, 2: STANDBY, 3: LEARNER}
    assert not wanted_replicas(state).stateful


def test_whoever_goes_keeps_no_replicas() -> None:
    state, _ = handle(member(), LeaveAsked(), NOW)
    assert replicas(state) == {}


P, Q, R = (partition(n) for n in range(3))


@pytest.mark.parametrize(
    ("caught_up", "called", "eager", "ready"),
    [
        ({}, (), True, ()),
        ({P: True, Q: False}, (), True, (P,)),
        ({P: True, Q: False}, (), False, ()),
        ({P: True, Q: True}, (), False, (P, Q)),
        ({P: True, Q: True, R: False}, (P, Q), False, (P, Q)),  # R came when both had called
        ({P: False, Q: True, R: False}, (P, Q), False, (Q,)),  # P's replica was lost
        ({P: False}, (P,), True, ()),
        ({Q: True}, (P,), False, (Q,)),
    ],
)
def test_learners_are_called_ready(caught_up, called, eager, ready) -> None:  # type: ignore[no-untyped-def]
    assert ready_learners(caught_up, frozenset(called), eager=eager) == frozenset(ready)
